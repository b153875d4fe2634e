"""Jobs that are with a cluster: offered, confirmed, told of, taken back, cancelled."""

import pytest
from msgspec.structs import replace

from ares.core.federation.epochs import newborn
from ares.core.federation.messages import JobReleased, OfferAccepted, OfferDeclined
from ares.core.federation.owners import ClusterDead, MakeOffer, OwnerInput
from ares.core.lifecycle.graph import begin, step
from ares.core.lifecycle.inputs import (
    Bind,
    Cancel,
    Context,
    HoldBack,
    Input,
    OwnerFound,
    OwnerMoved,
    OwnerTold,
    Stepped,
)
from ares.core.lifecycle.owners import FENCES_APART
from ares.core.refusal import Refusal
from ares.model.base import Fence
from ares.model.cluster import Owner
from ares.model.cluster_link import LedgerLine, OwnedEnd, OwnedStanding
from ares.model.job import JobSpec
from ares.model.state import ExitInfo, Job, JobState, Phase, Placement

SPEC = JobSpec(command=("true",))
NOW = Context(now=100.0, jitter=0.5, epoch=1)
FIRST = newborn(1) + 1


def new() -> JobState:
    return begin(id="j", tenant="t", spec=SPEC, name="n", submitted_by="u", context=NOW).state


def stepped(state: JobState, what: Input, context: Context = NOW) -> Stepped:
    done = step(Job(spec=SPEC, state=state), what, context)
    assert isinstance(done, Stepped), done
    return done


def refused(state: JobState, what: Input, context: Context = NOW) -> Refusal:
    done = step(Job(spec=SPEC, state=state), what, context)
    assert isinstance(done, Refusal), done
    return done


def moved(asked: OwnerInput) -> OwnerMoved:
    return OwnerMoved(asked=asked, reason="why")


def offered() -> JobState:
    return stepped(new(), moved(MakeOffer(cluster="a"))).state


def confirmed() -> JobState:
    return stepped(offered(), moved(OfferAccepted(job="j", cluster="a", epoch=FIRST))).state


def standing(phase: Phase, seq: int, epoch: int = FIRST, **more: object) -> OwnedStanding:
    entry = LedgerLine(seq=seq, kind="started", phase=phase, at=500.0, attempt=1, fence="1.1", by="agent n")
    told = OwnedStanding(job="j", epoch=epoch, fence=Fence(counter=1), seq=seq, since=0, phase=phase, entries=(entry,))
    return replace(told, **more)


def test_an_offer_takes_the_job_out_of_the_queue_and_a_no_puts_it_back() -> None:
    state = offered()
    assert (state.phase, state.owner) == ("WAITING", Owner(cluster="a", epoch=FIRST, stage="OFFERED"))
    back = stepped(state, moved(OfferDeclined(job="j", cluster="a", epoch=FIRST, code="full")))
    assert (back.state.phase, back.state.owner) == ("PENDING", Owner(epoch=FIRST))
    assert back.events[0].kind == "offer-over"
    again = stepped(back.state, moved(MakeOffer(cluster="b"))).state
    assert again.owner == Owner(cluster="b", epoch=FIRST + 1, stage="OFFERED")


@pytest.mark.parametrize("state", [offered(), confirmed()])
def test_nothing_here_places_or_holds_what_a_cluster_has(state: JobState) -> None:
    assert "is with cluster a" in refused(state, HoldBack(by="u")).message
    waiting = replace(state, phase="PENDING")
    bind = Bind(placements=(Placement(node="n", incarnation=1, cpu_milli=1, memory_mib=1),))
    assert "is with cluster a" in refused(waiting, bind).message


def test_what_the_owner_tells_is_taken_over_entry_by_entry_and_once() -> None:
    told = stepped(confirmed(), OwnerTold(cluster="a", standing=standing("RUNNING", 3)))
    assert (told.state.phase, told.state.owner_seq, told.state.placements) == ("RUNNING", 3, ())
    event = told.events[0]
    # The cluster's clock is ahead: nothing has happened later than now.
    assert (event.seq, event.at, event.data) == (told.state.seq, 100.0, {"cluster": "a"})
    assert refused(told.state, OwnerTold(cluster="a", standing=standing("RUNNING", 3))).code == "not-allowed"
    back = stepped(told.state, OwnerTold(cluster="a", standing=standing("RETRYING", 4, reason="exit 1"))).state
    assert (back.phase, back.reason) == ("WAITING", "RETRYING in cluster a: exit 1")
    end = OwnedEnd(exit=ExitInfo(code=0), committed_at=500.0, value=7)
    over = stepped(back, OwnerTold(cluster="a", standing=standing("SUCCEEDED", 5, ended=end)))
    assert over.state.phase == "SUCCEEDED"
    assert over.result is not None
    assert (over.result.value, over.result.committed_at) == (7, 100.0)
    assert refused(over.state, OwnerTold(cluster="a", standing=standing("RUNNING", 9))).code == "terminal"


@pytest.mark.parametrize(("cluster", "epoch"), [("b", FIRST), ("a", FIRST + 1), ("a", FIRST - 1)])
def test_another_cluster_or_epoch_is_refused(cluster: str, epoch: int) -> None:
    what = OwnerTold(cluster=cluster, standing=standing("SUCCEEDED", 9, epoch))
    assert refused(confirmed(), what).code == "stale-epoch"
    assert refused(offered(), what).code == "stale-epoch"


@pytest.mark.parametrize("asked", [JobReleased(job="j", cluster="a", epoch=FIRST), ClusterDead(cluster="a")])
def test_what_is_taken_back_starts_anew_under_higher_fences(asked: OwnerInput) -> None:
    running = stepped(confirmed(), OwnerTold(cluster="a", standing=standing("RUNNING", 3))).state
    back = stepped(running, moved(asked)).state
    assert (back.phase, back.started_at, back.owner) == ("PENDING", None, Owner(epoch=FIRST + 1))
    assert back.fence == Fence(counter=1 + FENCES_APART)
    late = OwnerTold(cluster="a", standing=standing("SUCCEEDED", 9))
    assert "PENDING" in refused(back, late).message


def test_a_cancel_ends_an_offer_at_once_and_waits_for_an_owners_word() -> None:
    over = stepped(offered(), Cancel(by="u")).state
    assert (over.phase, over.lingering, over.owner) == ("CANCELLED", False, Owner(epoch=FIRST))
    state = stepped(confirmed(), Cancel(by="u")).state
    assert (state.phase, state.lingering) == ("CANCELLED", True)
    assert refused(state, OwnerTold(cluster="a", standing=standing("RUNNING", 3))).code == "terminal"
    # Also when it had succeeded first: the cancel was acknowledged.
    gone = stepped(state, OwnerTold(cluster="a", standing=standing("SUCCEEDED", 4))).state
    assert (gone.phase, gone.lingering) == ("CANCELLED", False)


def test_a_restored_store_learns_the_owner_that_it_has_forgotten() -> None:
    restored = Context(now=100.0, jitter=0.5, epoch=2)
    known = stepped(new(), OwnerFound(cluster="a", epoch=FIRST, reason="r"), restored).state
    assert (known.phase, known.owner) == ("WAITING", Owner(cluster="a", epoch=FIRST, stage="CONFIRMED"))
    # In a store that was not restored that epoch would be known.
    assert refused(new(), OwnerFound(cluster="a", epoch=newborn(1) + 5, reason="r")).code == "stale-epoch"
    assert refused(known, OwnerFound(cluster="b", epoch=FIRST, reason="r"), restored).code == "stale-epoch"
