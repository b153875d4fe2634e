"""Healing on a simulated global plane: hashes, listings, verdicts, and all once more: nothing may change."""

import hashlib
from typing import TYPE_CHECKING

from ares.check.federation.history import HealRepeated
from ares.core.federation import buckets, healing, owners
from ares.core.federation.healing import ClusterHealth, ClusterJob, GlobalJob
from ares.core.federation.messages import JobVerdict
from ares.model.base import Fence
from ares.model.cluster import Owner
from ares.sim.federation.letters import (
    GlobalRecord,
    HealedLetter,
    HelloLetter,
    ListedJob,
    ListingLetter,
    WelcomeLetter,
)

if TYPE_CHECKING:
    from ares.sim.federation.plane import SimulatedPlane


class Healer:
    def __init__(self, plane: "SimulatedPlane") -> None:
        self._plane = plane
        self._number = 0
        # By cluster: the listing that is asked for.
        self._asked: dict[str, WelcomeLetter] = {}

    def welcome(self, name: str, hello: HelloLetter) -> None:
        plane = self._plane
        mine = buckets.hashes_of(
            (job, buckets.JobProgress(record.owner.epoch, _fence(record.fence), record.seq))
            for job, record in plane.store.jobs.items()
            if record.owner.cluster == name and record.owner.stage == "CONFIRMED"
        )
        self._number += 1
        # A number of the life before is no number of this one.
        number = plane.life * 1_000_000 + self._number
        told = {tenant: record for (tenant, cluster), record in plane.store.escrow.items() if cluster == name}
        # What a restored store has forgotten is in none of its own buckets, and a hello may be older than the restore.
        places = buckets.differing(mine, hello.hashes) if plane.rebuilt else tuple(range(buckets.BUCKETS))
        letter = WelcomeLetter(number, places, told)
        self._asked[name] = letter
        plane.down(name, letter)

    def heal(self, name: str, listing: ListingLetter) -> None:
        asked = self._asked.get(name)
        if asked is None or asked.number != listing.number:
            return
        del self._asked[name]
        plane = self._plane
        cluster = ClusterHealth(name, listing.store_epoch, listing.settled)
        verdicts = self._pass(cluster, asked, listing)
        before = self._digest()
        self._pass(cluster, asked, listing)
        plane.recorder.add(HealRepeated, cluster=name, before=before, after=self._digest())
        plane.healed.add(name)
        plane.down(name, HealedLetter(listing.number, verdicts))

    def _pass(self, cluster: ClusterHealth, asked: WelcomeLetter, listing: ListingLetter) -> tuple[JobVerdict, ...]:
        verdicts: list[JobVerdict] = []
        for job, listed in listing.jobs.items():
            verdict = self._settle(cluster, job, listed.entry, listed)
            if verdict is not None:
                verdicts.append(verdict)
        wanted = set(asked.buckets)
        for job, record in list(self._plane.store.jobs.items()):
            mine = record.owner.cluster == cluster.name and not record.outcome
            if mine and job not in listing.jobs and buckets.bucket_of(job) in wanted:
                self._settle(cluster, job, ClusterJob("nothing"), None)
        return tuple(verdicts)

    def _settle(
        self, cluster: ClusterHealth, job: str, entry: ClusterJob, listed: ListedJob | None
    ) -> JobVerdict | None:
        plane = self._plane
        record = plane.store.jobs.get(job)
        done = healing.heal(job, cluster, _known(record), entry, plane.store.store_epoch)
        if done.owner is None:
            return done.verdict
        if record is None:
            if listed is None:
                return None
            record = GlobalRecord(listed.job, Owner())
        if not record.outcome:
            self._adopt(cluster.name, record, done.owner, entry, listed)
            confirmation = owners.due(job, record.owner, plane.store.store_epoch)
            if done.remedy == "confirm" and confirmation is not None:
                plane.down(cluster.name, confirmation)
        return done.verdict

    def _adopt(
        self, cluster: str, record: GlobalRecord, owner: Owner, entry: ClusterJob, listed: ListedJob | None
    ) -> None:
        plane = self._plane
        plane.write_owner(record, owner)
        if listed is None or (owner.cluster, owner.stage) != (cluster, "CONFIRMED") or owner.epoch != entry.epoch:
            return
        if (entry.fence.counter, entry.seq) > (record.fence, record.seq):
            record.fence, record.seq = entry.fence.counter, entry.seq
        same = next(
            (
                other.job.id
                for other in plane.store.jobs.values()
                if other.job.request and other.job.request == record.job.request and not other.job.place
            ),
            None,
        )
        if listed.job.place and healing.imported(record.job.id, same, started=listed.started) == "cancel":
            record.cancel = True
        if listed.outcome:
            plane.write_outcome(record, listed.outcome, cluster, entry.epoch)

    def _digest(self) -> str:
        jobs = sorted(self._plane.store.jobs.items())
        owned = [f"{job} {record.owner} {record.outcome} {record.cancel}" for job, record in jobs]
        return hashlib.sha256("\n".join(owned).encode()).hexdigest()


def _fence(counter: int) -> Fence:
    return Fence(epoch=1, counter=counter)


def _known(record: GlobalRecord | None) -> GlobalJob | None:
    if record is None:
        return None
    return GlobalJob(record.owner, bool(record.outcome), _fence(record.fence), record.seq, record.confirmed_in)
