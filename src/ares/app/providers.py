"""Providers of machines for pools that scale: processes of this machine, and those of other distributions, found by
their entry points. Loaded only where a pool names them."""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from ares.app.config import Config, ConfigError
from ares.ports.machines import MachineProvider, Providers

PROVIDERS_GROUP = "ares.providers"
PROCESS = "process"
# The cluster's name by default.
UNNAMED = "local"


def providers_of(config: Config, found: Callable[..., Any] = entry_points) -> Providers:
    """Those that pools name. One that is not there stops the start: its machines would never be given back."""
    wanted = {pool.provider for pool in config.autoscale.scaling}
    providers: dict[str, MachineProvider] = {}
    if PROCESS in wanted:
        from ares.adapters.machines.process import ProcessMachines

        folder = config.home_path / "machines"
        providers[PROCESS] = ProcessMachines(folder, settings=config.autoscale.agent_settings)
    others = {entry.name: entry for entry in found(group=PROVIDERS_GROUP)} if wanted - {PROCESS} else {}
    for name in sorted(wanted - {PROCESS}):
        if name not in others:
            known = ", ".join(sorted((PROCESS, *others)))
            raise ConfigError(f"autoscale.pools: there is no provider {name!r}", f"install its plugin, or use {known}")
        if config.cluster == UNNAMED:
            # Another installation of the default name in the same account would take these machines for strangers.
            what = (
                f"autoscale.pools: the provider {name!r} tells its machines by the cluster, which is still {UNNAMED!r}"
            )
            raise ConfigError(what, 'give this cluster a name that no other has: cluster = "NAME" in ares.toml')
        try:
            providers[name] = others[name].load()(cluster=config.cluster)
        except Exception as error:
            what = f"autoscale.pools: the provider {name!r} cannot be loaded: {type(error).__name__}: {error}"
            raise ConfigError(what, "see the log of its plugin") from error
    return providers
