"""A federation's history as a person reads it, with the broken promises among its lines."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ares.check.federation import history
from ares.check.federation.history import Happening
from ares.check.invariants.history import Violation
from ares.core.federation.epochs import shown


def story(events: Iterable[Happening], violations: Iterable[Violation] = ()) -> Iterator[str]:
    """Reports, decisions and repeated healings are too many to be read, and are left out."""
    broken = sorted(violations, key=lambda violation: violation.t)
    for event in events:
        while broken and broken[0].t < event.t:
            yield _broken(broken.pop(0))
        teller = _TELLERS.get(type(event))
        if teller is not None:
            yield f"{event.t:10.3f}  {teller(event)}"
    for violation in broken:
        yield _broken(violation)


def _broken(violation: Violation) -> str:
    return f"{violation.t:10.3f}  !!! {violation.rule}: {violation.job}: {violation.what}"


_TELLERS: dict[type, Callable[[Any], str]] = {
    history.JobSubmitted: lambda e: f"{e.job} is submitted to {e.place or 'the global plane'} by {e.tenant}",
    history.OwnerWritten: lambda e: f"{e.job} is {e.stage} {e.cluster} {shown(e.epoch)}",
    history.PossessionWritten: lambda e: (
        f"{e.cluster:<8} has {f'{e.stage} {shown(e.epoch)}' if e.epoch else 'nothing'} of {e.job}, "
        f"refused {shown(e.refused)}"
    ),
    history.RunBegan: lambda e: f"{e.cluster:<8} starts {e.job} {shown(e.epoch)}",
    history.RunOver: lambda e: f"{e.cluster:<8} {e.job} {shown(e.epoch)} is gone",
    history.OutcomeWritten: lambda e: f"{e.job} ends as {e.outcome} {e.cluster} {shown(e.epoch)}",
    history.ClusterWritten: lambda e: f"{e.cluster:<8} is {e.state}",
    history.StoreRestored: lambda e: f"*** the store of {e.cluster or 'the global plane'} is restored",
    history.FederationFault: lambda e: f"*** {e.what} {e.cluster}",
    history.AllMended: lambda _: "*** everything is mended",
    history.WorldOver: lambda _: "the end",
    history.CancelAsked: lambda e: f"{e.job} is to be cancelled",
    history.LocalOver: lambda e: f"{e.cluster:<8} local {e.job} has ended",
}
