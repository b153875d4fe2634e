"""The table of healing, row by row, and escrow."""

import pytest

from ares.core.federation import escrow
from ares.core.federation.epochs import LOCAL_EPOCH, raised
from ares.core.federation.healing import ClusterHealth, ClusterJob, GlobalJob, Remedy, heal, imported, newer
from ares.core.federation.messages import JobVerdict
from ares.model.base import Fence
from ares.model.cluster import EscrowRecord, Owner

E = raised(0, 1)
A = ClusterHealth("a")
CONFIRMED = GlobalJob(Owner(cluster="a", epoch=E, stage="CONFIRMED"), confirmed_in=1)
OFFERED = GlobalJob(Owner(cluster="a", epoch=E, stage="OFFERED"))
ELSEWHERE = GlobalJob(Owner(cluster="b", epoch=E + 1, stage="CONFIRMED"))
HELD = GlobalJob(Owner(epoch=E + 1))
ENDED = GlobalJob(Owner(cluster="a", epoch=E, stage="CONFIRMED"), ended=True)

# What the global plane says, what the cluster says, what is done, the owner's stage after it, what the cluster is told.
ROWS: list[tuple[GlobalJob | None, ClusterJob, Remedy, str | None, str | None]] = [
    (CONFIRMED, ClusterJob("confirmed", E), "adopt", "CONFIRMED", "keep"),
    (CONFIRMED, ClusterJob("accepted", E), "confirm", "CONFIRMED", "keep"),
    (CONFIRMED, ClusterJob("refused", E), "hold", "HELD", None),
    (CONFIRMED, ClusterJob("ended", E), "adopt", "CONFIRMED", "ended"),
    (CONFIRMED, ClusterJob("nothing"), "alarm", "CONFIRMED", None),
    (OFFERED, ClusterJob("accepted", E), "confirm", "CONFIRMED", "keep"),
    (OFFERED, ClusterJob("refused", E), "hold", "HELD", None),
    (OFFERED, ClusterJob("nothing"), "none", "OFFERED", None),
    (ELSEWHERE, ClusterJob("confirmed", E), "stop", "CONFIRMED", "stop"),
    (HELD, ClusterJob("accepted", E), "stop", "HELD", "stop"),
    (HELD, ClusterJob("ended", E), "late", "HELD", "stop"),
    (ENDED, ClusterJob("confirmed", E), "stop", "CONFIRMED", "stop"),
    (ENDED, ClusterJob("ended", E), "none", "CONFIRMED", "ended"),
    (None, ClusterJob("local", LOCAL_EPOCH), "import", "CONFIRMED", "keep"),
    (None, ClusterJob("confirmed", E), "alarm", None, None),
    (HELD, ClusterJob("confirmed", E + 9), "alarm", "HELD", None),
]


@pytest.mark.parametrize(("known", "listed", "remedy", "stage", "told"), ROWS)
def test_a_row_of_the_table(
    known: GlobalJob | None, listed: ClusterJob, remedy: Remedy, stage: str | None, told: str | None
) -> None:
    done = heal("j", A, known, listed, 1)
    assert done.remedy == remedy
    assert (done.owner.stage if done.owner else None) == stage
    assert (done.verdict.do if done.verdict else None) == told


def test_a_job_that_a_restored_cluster_lost_is_held_when_nothing_of_it_can_run() -> None:
    restored = ClusterHealth("a", store_epoch=2, settled=False)
    assert heal("j", restored, CONFIRMED, ClusterJob("nothing"), 1).owner == CONFIRMED.owner
    done = heal("j", restored._replace(settled=True), CONFIRMED, ClusterJob("nothing"), 1)
    assert (done.remedy, done.owner) == ("lost", Owner(epoch=E + 1))


@pytest.mark.parametrize("known", [None, HELD._replace(owner=Owner(epoch=E - 1)), OFFERED])
def test_a_restored_global_plane_is_rebuilt_from_the_owner(known: GlobalJob | None) -> None:
    running = heal("j", A, known, ClusterJob("confirmed", E), 2)
    assert (running.remedy, running.owner) == ("rebuild", Owner(cluster="a", epoch=E, stage="CONFIRMED"))


@pytest.mark.parametrize(
    ("known", "after"), [(None, Owner(epoch=E)), (OFFERED, OFFERED.owner), (CONFIRMED, CONFIRMED.owner)]
)
def test_a_restored_global_plane_confirms_nothing_by_an_acceptance_alone(known: GlobalJob | None, after: Owner) -> None:
    """Another cluster may have had the job since."""
    accepted = heal("j", A, known, ClusterJob("accepted", E), 2)
    assert (accepted.owner, accepted.verdict) == (after, JobVerdict(job="j", epoch=E, do="stop"))


def test_a_restored_global_plane_offers_above_what_was_refused() -> None:
    refused = heal("j", A, HELD, ClusterJob("refused", E + 5), 2)
    assert (refused.remedy, refused.owner) == ("raise", Owner(epoch=E + 5))


def test_the_greater_fence_and_number_are_taken_and_an_end_stays() -> None:
    known = CONFIRMED._replace(fence=Fence(epoch=1, counter=3), seq=7)
    assert newer(known, ClusterJob("confirmed", E, Fence(epoch=1, counter=3), 8))
    assert newer(known, ClusterJob("confirmed", E, Fence(epoch=2, counter=1), 1))
    assert not newer(known, ClusterJob("confirmed", E, Fence(epoch=1, counter=2), 9))
    assert not newer(known._replace(ended=True), ClusterJob("confirmed", E, Fence(epoch=9, counter=2), 9))


def test_a_verdict_is_about_the_epoch_that_the_cluster_has() -> None:
    assert heal("j", A, ELSEWHERE, ClusterJob("confirmed", E), 1).verdict == JobVerdict(job="j", epoch=E, do="stop")


def test_two_jobs_of_one_request() -> None:
    assert imported("l001x", None, started=True) == "import"
    assert imported("l001x", "l001x", started=True) == "import"
    assert imported("l001x", "y", started=False) == "cancel"
    assert imported("l001x", "y", started=True) == "duplicate"


# ---- escrow


def test_time_returns_nothing() -> None:
    record = escrow.grant(EscrowRecord(), {"gpus": 4}, until=100.0)
    assert escrow.room({"gpus": 10}, {"gpus": 3}, [record]) == {"gpus": 3}
    assert escrow.admits(record, {"gpus": 2}, {"gpus": 2}, 99.0)
    assert not escrow.admits(record, {"gpus": 2}, {"gpus": 3}, 99.0)
    assert not escrow.admits(record, {}, {"gpus": 1}, 100.0)
    assert escrow.lent(record) == {"gpus": 4}


def test_what_is_given_back_counts_when_it_was_heard() -> None:
    lent = escrow.grant(EscrowRecord(), {"gpus": 4}, until=100.0)
    mine = escrow.heard(EscrowRecord(), lent.granted, {}, lent.until)
    mine = escrow.give_back(mine, {"gpus": 1})
    assert escrow.lent(mine) == {"gpus": 1}
    assert escrow.lent(lent) == {"gpus": 4}
    heard = escrow.heard(lent, {}, mine.released, 0.0)
    assert escrow.lent(heard) == {"gpus": 1}
    assert escrow.lent(escrow.grant(heard, {"gpus": 2}, 200.0)) == {"gpus": 3}


def test_a_measure_that_was_not_lent_is_not_spent() -> None:
    record = escrow.grant(EscrowRecord(), {"gpus": 4}, until=100.0)
    assert not escrow.admits(record, {}, {"gpus": 1, "cpu": 1}, 0.0)
