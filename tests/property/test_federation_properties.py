"""Merge laws, and healing: twice is once, in any order."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from ares.core.federation import escrow, merge
from ares.core.federation.buckets import JobProgress, differing, hashes_of, with_, without
from ares.core.federation.epochs import raised
from ares.core.federation.healing import HEALING, ClusterHealth, ClusterJob, GlobalJob, heal
from ares.core.federation.merge import EntryKey, Register, Version
from ares.model.base import Fence
from ares.model.cluster import EscrowRecord, Owner

few = st.integers(0, 4)
names = st.sampled_from("abc")
# One writer gives one value to a version.
registers = st.builds(lambda incarnation, seq: Register(version=Version(incarnation, seq), value=seq), few, few)
counters = st.dictionaries(st.tuples(names, few), few, max_size=4)
tombstones = st.dictionaries(names, few, max_size=3)
keys = st.builds(EntryKey, names, few, st.tuples(few, few), few)
entries = st.lists(keys, max_size=5).map(lambda found: {key: key.seq for key in found})
amounts = st.dictionaries(st.sampled_from(("cpu", "gpus")), few, max_size=2)
escrows = st.builds(lambda granted, released: (granted, released), amounts, amounts)


def _escrow(left: EscrowRecord, right: EscrowRecord) -> EscrowRecord:
    return escrow.heard(left, right.granted, right.released, right.until)


def _lawful(merged, left, right, third) -> bool:  # type: ignore[no-untyped-def]
    """Idempotent, commutative, associative."""
    once = merged(left, left) == left
    same = merged(left, right) == merged(right, left)
    return once and same and merged(merged(left, right), third) == merged(left, merged(right, third))


@given(registers, registers, registers)
def test_registers_merge(left: Register[int], right: Register[int], third: Register[int]) -> None:
    assert _lawful(merge.latest, left, right, third)


@given(counters, counters, counters)
def test_counters_merge_and_never_fall(left: merge.Counter, right: merge.Counter, third: merge.Counter) -> None:
    assert _lawful(merge.counted, left, right, third)
    assert merge.total(merge.counted(left, right)) >= max(merge.total(left), merge.total(right))


@given(tombstones, tombstones, tombstones)
def test_tombstones_merge_and_stay(left: merge.Tombstones, right: merge.Tombstones, third: merge.Tombstones) -> None:
    assert _lawful(merge.buried, left, right, third)
    both = merge.buried(left, right)
    assert all(merge.is_buried(both, name, epoch) for name, epoch in left.items())


@given(entries, entries, entries)
def test_entries_merge(left: dict[EntryKey, int], right: dict[EntryKey, int], third: dict[EntryKey, int]) -> None:
    assert _lawful(merge.joined, left, right, third)


@given(amounts, amounts, amounts, amounts, amounts, amounts)
def test_escrow_merges(
    a: dict[str, int], b: dict[str, int], c: dict[str, int], d: dict[str, int], e: dict[str, int], f: dict[str, int]
) -> None:
    left, right, third = (escrow.heard(EscrowRecord(), *pair, 0.0) for pair in ((a, b), (c, d), (e, f)))
    assert _lawful(_escrow, left, right, third)


# ---- escrow between two sides that hear of each other late, or never


@given(st.lists(st.tuples(st.sampled_from(("grant", "down", "spend", "end", "release", "up")), few), max_size=30))
def test_a_cluster_never_spends_what_the_global_plane_does_not_count(steps: list[tuple[str, int]]) -> None:
    there, here, used = EscrowRecord(), EscrowRecord(), 0
    for what, units in steps:
        if what == "grant":
            there = escrow.grant(there, {"gpus": units}, 10.0)
        elif what == "down":
            here = escrow.heard(here, there.granted, {}, there.until)
        elif what == "spend" and escrow.admits(here, {"gpus": used}, {"gpus": units}, 0.0):
            used += units
        elif what == "end":
            used = max(0, used - units)
        elif what == "release":
            here = escrow.give_back(here, {"gpus": used})
        elif what == "up":
            there = escrow.heard(there, {}, here.released, 0.0)
        assert used <= escrow.lent(there).get("gpus", 0)


# ---- buckets


progress = st.builds(
    JobProgress, few, st.builds(lambda epoch, counter: Fence(epoch=epoch, counter=counter), few, few), few
)
jobs = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), progress, max_size=20)


@given(jobs, jobs)
def test_hashes_differ_where_jobs_do(left: dict[str, JobProgress], right: dict[str, JobProgress]) -> None:
    kept = hashes_of(left.items())
    for job, known in left.items():
        without(kept, job, known)
    for job, known in right.items():
        with_(kept, job, known)
    assert kept == hashes_of(right.items())
    assert (differing(hashes_of(left.items()), kept) == ()) == (left == right)


# ---- healing


STORE = 2
# Epochs from before a restore of the global plane and from after it. After a confirmed one the next offer's is two
# higher.
epochs = st.sampled_from([first + more for first in (raised(0, 1), raised(0, STORE)) for more in (0, 2, 4)])
stages = st.sampled_from(("OFFERED", "CONFIRMED"))
owners = st.builds(lambda name, epoch, stage: Owner(cluster=name, epoch=epoch, stage=stage), names, epochs, stages) | (
    st.builds(lambda epoch: Owner(epoch=epoch), epochs)
)
known_jobs = st.none() | st.builds(
    GlobalJob, owners, st.booleans(), st.just(Fence()), st.just(0), st.just(1), st.booleans()
)
listed_jobs = st.builds(
    ClusterJob, st.sampled_from(("confirmed", "accepted", "stopping", "ended", "refused", "nothing")), epochs
)


def _healed(known: GlobalJob | None, cluster: str, listed: ClusterJob) -> GlobalJob | None:
    owner = heal("j", ClusterHealth(cluster), known, listed, STORE).owner
    if owner is None:
        return None
    ended, lingering = (known.ended, known.lingering) if known else (False, False)
    return GlobalJob(owner, ended, confirmed_in=1, lingering=lingering)


@given(known_jobs, names, listed_jobs)
def test_healing_twice_is_healing_once(known: GlobalJob | None, cluster: str, listed: ClusterJob) -> None:
    if listed.says == "nothing":
        listed = ClusterJob("nothing")
    once = _healed(known, cluster, listed)
    assert _healed(once, cluster, listed) == once


@given(known_jobs, names, listed_jobs)
def test_healing_lets_no_epoch_fall(known: GlobalJob | None, cluster: str, listed: ClusterJob) -> None:
    after = _healed(known, cluster, listed)
    if known is not None:
        assert after is not None
        assert after.owner.epoch >= known.owner.epoch
        assert not known.ended or after.owner == known.owner


@given(known_jobs, st.lists(listed_jobs.filter(lambda listed: listed.says != "nothing"), min_size=2, max_size=3))
def test_the_order_in_which_clusters_heal_does_not_matter(known: GlobalJob | None, listings: list[ClusterJob]) -> None:
    """Of one epoch only one cluster was ever offered the job."""
    apart = {listed.epoch: listed for listed in listings}
    told = list(zip("abc", apart.values(), strict=False))
    if known is not None and any(
        known.owner.epoch == listed.epoch and known.owner.cluster not in ("", cluster) for cluster, listed in told
    ):
        return
    ends = set[GlobalJob | None]()
    for order in permutations(told):
        state = known
        # Each heals again when the last one has: what a later one said may concern it.
        for _ in range(2):
            for cluster, listed in order:
                state = _healed(state, cluster, listed)
        ends.add(state)
    assert len(ends) == 1


def test_the_table_names_every_pair_that_can_be() -> None:
    cluster_says = ("confirmed", "accepted", "stopping", "ended", "refused")
    global_says = ("owner", "offered", "elsewhere", "ended", "cancelled", "behind", "unknown", "never")
    assert {(place, says) for place in global_says for says in cluster_says} <= set(HEALING)
