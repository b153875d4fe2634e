"""What a job will cost and how long it will run, as far as it can be said before it is there. Clients are not asked."""

from typing import NamedTuple

from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.state.view import Delta, View
from ares.core.admit.memory import MemoryShare, share_of
from ares.core.energy import HOUR_S
from ares.core.quota.asked import Models, per_hour
from ares.model.access import Principal
from ares.model.job import JobSpec

# Of jobs that nothing is known about.
DEFAULT_S = 3600.0
# Of jobs that say how long they run, and that nothing ends if they run longer.
UNLIMITED_MIN_S = 600.0


class Estimated(NamedTuple):
    """Of one job or task. Of what costs nothing and has no GPUs nothing needs to be known."""

    seconds: float = 0.0
    cost: float = 0.0


NOTHING = Estimated()


def at_least(spec: JobSpec) -> float:
    """What must be paid for whatever like jobs took: as long as it may run; without a limit as long as it says, but not
    less than some minutes, since nothing holds it to its word; an hour where it says nothing, or zero."""
    said = max((spec.expected_runtime_s or 0.0, *spec.expected_runtimes_s.values()))
    return spec.time_limit_s or (max(said, UNLIMITED_MIN_S) if said else DEFAULT_S)


class MemoryDefaults:
    """What jobs get that do not say, by the machines that are known; looked at again when these change."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._share: MemoryShare | None = None
        view.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted or delta.nodes:
            self._share = None

    @property
    def share(self) -> MemoryShare:
        if self._share is None:
            self._share = share_of(node.info for node in self._view.nodes.values())
        return self._share


class Estimates:
    """What a job may cost, by the profile in force: never less because of short jobs that ran before, and never by what
    other tenants' jobs took."""

    def __init__(self, view: View, planner: LiveCluster) -> None:
        self._view = view
        self._planner = planner
        self._models: Models | None = None
        view.subscribe(self._on_delta)

    def of(self, who: Principal, spec: JobSpec) -> Estimated:
        return self.of_account(f"{who.tenant}/{spec.team or 'default'}/{who.subject}", spec)

    def of_account(self, account: str, spec: JobSpec) -> Estimated:
        pools = self._view.profile.profile.pools
        price = per_hour(spec, pools, self._known_models()) if pools else 0.0
        if not price and not spec.resources.gpus and not spec.resources.devices:
            return NOTHING
        seconds = max(at_least(spec), self._planner.predictor.own_high(spec, account))
        return Estimated(seconds, seconds * price / HOUR_S)

    def _known_models(self) -> Models:
        if self._models is None:
            found: dict[str, set[str]] = {}
            for record in self._view.nodes.values():
                found.setdefault(record.info.pool, set()).update(gpu.model for gpu in record.info.gpus)
            self._models = {pool: frozenset(models) for pool, models in found.items()}
        return self._models

    def _on_delta(self, delta: Delta) -> None:
        if delta.nodes or delta.relisted:
            self._models = None
