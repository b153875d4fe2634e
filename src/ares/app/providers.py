"""Providers of machines for pools that scale: processes of this machine, and those of other distributions, found by
their entry points. Loaded only where a pool names them."""

from collections.abc import Callable
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from msgspec.structs import replace

from ares.adapters.machines.apart import ApartMachines
from ares.app.config import Config, ConfigError
from ares.core.kube.inventory import features
from ares.model.scaling import ScalingPool
from ares.ports.machines import MachineProvider, PriceSource, Providers

PROVIDERS_GROUP = "ares.providers"
PROCESS, KUBERNETES = "process", "kubernetes"
# The cluster's name by default.
UNNAMED = "local"


def prices_of(config: Config) -> PriceSource | None:
    place = config.autoscale.catalogue
    if not place:
        return None
    from ares.adapters.machines.prices import CatalogueFile, flaw

    if why := flaw(place):
        raise ConfigError(f"autoscale.catalogue: {why}", "use an https:// address, or a file")
    return CatalogueFile(place)


def providers_of(config: Config, found: Callable[..., Any] = entry_points) -> Providers:
    """Those that pools name. One that is not there stops the start: its machines would never be given back."""
    wanted = {pool.provider for pool in config.autoscale.scaling}
    providers: dict[str, MachineProvider] = {}
    if PROCESS in wanted:
        from ares.adapters.machines.process import ProcessMachines

        folder = config.home_path / "machines"
        providers[PROCESS] = ProcessMachines(folder, settings=config.autoscale.agent_settings)
    if KUBERNETES in wanted:
        providers[KUBERNETES] = _kubernetes(config)
    plugins = wanted - {PROCESS, KUBERNETES}
    others = {entry.name: entry for entry in found(group=PROVIDERS_GROUP)} if plugins else {}
    for name in sorted(plugins):
        if name not in others:
            known = ", ".join(sorted((PROCESS, KUBERNETES, *others)))
            raise ConfigError(f"autoscale.pools: there is no provider {name!r}", f"install its plugin, or use {known}")
        _named(config, name)
        try:
            providers[name] = ApartMachines(name, others[name].load()(cluster=config.cluster))
        except Exception as error:
            what = f"autoscale.pools: the provider {name!r} cannot be loaded: {type(error).__name__}: {error}"
            raise ConfigError(what, "see the log of its plugin") from error
    return providers


def _named(config: Config, provider: str) -> None:
    """Another installation of the default name in the same account would take these machines for strangers."""
    if config.cluster == UNNAMED:
        what = (
            f"autoscale.pools: the provider {provider!r} tells its machines by the cluster, which is still {UNNAMED!r}"
        )
        raise ConfigError(what, 'give this cluster a name that no other has: cluster = "NAME" in ares.toml')


def _kubernetes(config: Config) -> MachineProvider:
    """Of the cluster that the section `kube` is about, as its kube-agent has it."""
    if find_spec("lightkube") is None:
        raise ConfigError(
            "autoscale.pools: the provider 'kubernetes' needs the extra kube", "pip install 'ares-platform[kube]'"
        )
    from ares.adapters.kubernetes.machines import KubeMachines
    from ares.app.kube.agent import client_of
    from ares.core.kube.machine import MachineTerms

    _named(config, KUBERNETES)
    said = config.kube
    return KubeMachines(client_of(config), MachineTerms(said.namespace, said.code, config.cluster, said.hold_image))


def scaling_of(config: Config) -> tuple[ScalingPool, ...]:
    """Pools with what their nodes will give jobs, where that is known before there is one."""
    said = config.kube
    of_pods = features(bare=bool(said.image), files=bool(said.helper))
    return tuple(
        replace(pool, features=of_pods) if pool.provider == KUBERNETES else pool for pool in config.autoscale.scaling
    )
