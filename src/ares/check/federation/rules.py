"""F1 to F14: what a federation promises, each by what a history shows."""

from typing import ClassVar

from ares.check.federation.books import FederationBooks
from ares.check.federation.history import (
    ClusterWritten,
    Happening,
    HealRepeated,
    JobSubmitted,
    LocalOver,
    OutcomeWritten,
    OwnerWritten,
    PossessionWritten,
    ReportHeard,
    RouteWritten,
    RunBegan,
    StoreRestored,
    WorldOver,
)
from ares.check.invariants.history import Violation

_TIME = ("wait_s", "boot_s", "data_s", "image_s", "run_s")
_MONEY = ("run_cost", "egress_cost", "interruption_cost")


class FederationRule:
    """`before` sees an event while the books are as they were, `after` when they have taken it."""

    id: ClassVar[str]
    title: ClassVar[str]

    def __init__(self, books: FederationBooks) -> None:
        self.books = books
        self.tested = 0
        self.broken: list[Violation] = []

    def before(self, event: Happening) -> None:
        """What an event changes."""

    def after(self, event: Happening) -> None:
        """What is so from there on."""

    def blame(self, job: str, what: str) -> None:
        self.broken.append(Violation(self.id, self.books.t, job, what))


class OneOwner(FederationRule):
    id, title = "F1", "one owner for each job and revision; epochs never fall"

    def before(self, event: Happening) -> None:
        if not isinstance(event, OwnerWritten):
            return
        self.tested += 1
        known = self.books.owners.get(event.job)
        if known is not None and event.epoch < known.epoch:
            self.blame(event.job, f"its epoch falls from {known.epoch} to {event.epoch}")
        if bool(event.cluster) != (event.stage != "HELD"):
            self.blame(event.job, f"{event.stage} with the owner {event.cluster!r}")
        same = known is not None and known.epoch == event.epoch and known.cluster and event.cluster
        if same and known is not None and known.cluster != event.cluster:
            self.blame(event.job, f"epoch {event.epoch} belongs to {known.cluster} and to {event.cluster}")


class StartAfterConfirm(FederationRule):
    id, title = "F2", "a start has an earlier confirm of its epoch, and no withdrawal between"

    def before(self, event: Happening) -> None:
        if not isinstance(event, RunBegan):
            return
        self.tested += 1
        books = self.books
        local = books.jobs[event.job].place == event.cluster
        if not local and (event.job, event.cluster, event.epoch) not in books.confirmed:
            self.blame(event.job, f"starts in {event.cluster} with epoch {event.epoch}, which was never confirmed")
        held = books.possessions.get((event.cluster, event.job))
        if held is not None and (held.refused >= event.epoch or held.stage == "STOPPING"):
            self.blame(event.job, f"starts in {event.cluster}, which has given epoch {event.epoch} away")


class AliveOnce(FederationRule):
    id, title = "F3", "alive in two clusters only when one of them was declared dead"

    def before(self, event: Happening) -> None:
        if not isinstance(event, RunBegan):
            return
        books = self.books
        for cluster, job, epoch in books.alive:
            if job == event.job:
                self.tested += 1
                # Also of a job that may move: its old cluster ends it before it moves.
                if cluster == event.cluster or cluster not in books.dead_at:
                    self.blame(job, f"begins in {event.cluster} ({event.epoch}) and is alive in {cluster} ({epoch})")
        self.tested += 1


class RefusedForGood(FederationRule):
    id, title = "F4", "what a cluster refused it never accepts, nor anything below"

    def before(self, event: Happening) -> None:
        if not isinstance(event, PossessionWritten) or not event.epoch:
            return
        held = self.books.possessions.get((event.cluster, event.job))
        if held is not None and held.refused and event.epoch != held.epoch:
            self.tested += 1
            if event.epoch <= held.refused:
                self.blame(event.job, f"{event.cluster} accepts {event.epoch} and has refused {held.refused}")


class CurrentResult(FederationRule):
    id, title = "F5", "a committed result carries the current epoch of the owner"

    def before(self, event: Happening) -> None:
        if not isinstance(event, OutcomeWritten) or not event.epoch:
            return
        self.tested += 1
        owner = self.books.owners.get(event.job)
        current = (owner.stage, owner.cluster, owner.epoch) if owner is not None else None
        if current != ("CONFIRMED", event.cluster, event.epoch):
            self.blame(event.job, f"the result of {event.cluster}, epoch {event.epoch}, counts; its owner is {current}")


class StickyOwner(FederationRule):
    id, title = "F6", "a confirmed job leaves its cluster only by release, dead or move"

    def before(self, event: Happening) -> None:
        if not isinstance(event, OwnerWritten):
            return
        books = self.books
        known = books.owners.get(event.job)
        if known is None or known.stage != "CONFIRMED" or known.epoch == event.epoch:
            return
        self.tested += 1
        cluster = known.cluster
        released = books.refused.get((cluster, event.job), 0) >= known.epoch
        dead = books.dead_at.get(cluster, -1.0) >= 0
        moved = books.jobs[event.job].may_move
        job = books.jobs[event.job]
        since = job.t if job.place == cluster else books.offered_at[event.job, known.epoch]
        lost = books.restored_at.get(cluster, -1.0) >= since
        # A restored global plane learns of what it has forgotten: the epoch was there before.
        rebuilt = "" in books.restored_at and event.epoch <= books.highest[event.job]
        if not (released or dead or moved or lost or rebuilt):
            self.blame(event.job, f"leaves {cluster}, epoch {known.epoch}, for {event.epoch}: {cluster} did not let go")


class EscrowKept(FederationRule):
    id, title = "F7", "what is admitted, globally and locally, is within the quota"

    def __init__(self, books: FederationBooks) -> None:
        super().__init__(books)
        self._live: dict[str, JobSubmitted] = {}

    def after(self, event: Happening) -> None:
        books = self.books
        if isinstance(event, JobSubmitted):
            self._live[event.job] = event
            # What a dead cluster admits spends nothing, and what it had lent was taken back.
            dead = books.dead_at.keys()
            used = [job for job in self._live.values() if job.tenant == event.tenant and job.place not in dead]
            quota = books.settings.quota.get(event.tenant)
            self.tested += 1
            if quota is not None and event.place not in dead and len(used) > quota:
                self.blame(event.job, f"is number {len(used)} of tenant {event.tenant}, whose quota is {quota}")
        elif isinstance(event, OutcomeWritten):
            if not books.jobs[event.job].place:
                self._live.pop(event.job, None)
        elif isinstance(event, LocalOver):
            self._live.pop(event.job, None)
        elif isinstance(event, StoreRestored):
            # Jobs that only the lost part of the store had.
            self._live = {name: job for name, job in self._live.items() if self._kept(job, event)}
        elif isinstance(event, OwnerWritten) and event.job not in self._live and not self._over(event.job):
            self._live[event.job] = books.jobs[event.job]

    def _kept(self, job: JobSubmitted, event: StoreRestored) -> bool:
        if event.cluster:
            return job.place != event.cluster
        return bool(job.place) or job.job in self.books.owners

    def _over(self, job: str) -> bool:
        return job in self.books.outcomes or job in self.books.local_over or bool(self.books.jobs[job].place)


class HealOnce(FederationRule):
    id, title = "F8", "healing twice is healing once"

    def before(self, event: Happening) -> None:
        if isinstance(event, HealRepeated):
            self.tested += 1
            if event.before != event.after:
                self.blame("", f"healing {event.cluster} again changed owners")


class LocalKnown(FederationRule):
    id, title = "F9", "an acknowledged local job is known globally within a bound after healing"

    def before(self, event: Happening) -> None:
        books = self.books
        if not isinstance(event, WorldOver) or books.mended_at is None:
            return
        if event.t < books.mended_at + books.settings.import_s:
            return
        for job in books.jobs.values():
            cluster = job.place
            gone = cluster in books.dead_at or job.t <= books.restored_at.get(cluster, -1.0)
            if cluster and not gone:
                self.tested += 1
                if job.job not in books.owners:
                    self.blame(job.job, f"was acknowledged by {cluster} at {job.t:.1f} s and is not known globally")


class EndsWin(FederationRule):
    id, title = "F10", "an end, a cancel and a drain win"

    def before(self, event: Happening) -> None:
        books = self.books
        if isinstance(event, OutcomeWritten) and event.job in books.outcomes:
            self.blame(event.job, f"ended as {books.outcomes[event.job].outcome} and ends again as {event.outcome}")
        if isinstance(event, OwnerWritten):
            if event.job in books.outcomes:
                self.blame(event.job, f"has ended and becomes {event.stage}")
            cluster = books.clusters.get(event.cluster)
            if event.stage == "OFFERED" and cluster is not None:
                self.tested += 1
                if cluster.state != "ACTIVE":
                    self.blame(event.job, f"is offered to {event.cluster}, which is {cluster.state}")
        if isinstance(event, OutcomeWritten):
            self.tested += 1
        if isinstance(event, WorldOver):
            for job in books.cancelled:
                if job in books.owners and job not in books.outcomes:
                    self.blame(job, "was cancelled and has not ended")
            for cluster, job, _epoch in books.alive:
                if job in books.outcomes and cluster not in books.dead_at:
                    self.blame(job, f"has ended and is alive in {cluster}")


class MergeLaws(FederationRule):
    id, title = "F11", "of all reports that arrived the greatest (incarnation, number) is kept"

    def __init__(self, books: FederationBooks) -> None:
        super().__init__(books)
        self._greatest: dict[tuple[str, int], tuple[int, int]] = {}

    def before(self, event: Happening) -> None:
        if isinstance(event, StoreRestored) and not event.cluster:
            self._greatest.clear()
        if not isinstance(event, ReportHeard):
            return
        self.tested += 1
        place = (event.cluster, event.generation)
        greatest = max(self._greatest.get(place, (0, 0)), (event.incarnation, event.seq))
        self._greatest[place] = greatest
        if event.kept != greatest:
            self.blame("", f"of {event.cluster} report {event.kept} is kept, and {greatest} has arrived")


class OfferedSoon(FederationRule):
    id, title = "F12", "a held job that a cluster may have is offered within a bound, and ends"

    def before(self, event: Happening) -> None:
        books = self.books
        if not isinstance(event, WorldOver) or books.mended_at is None:
            return
        if event.t < books.mended_at + books.settings.offer_s:
            return
        for owner in books.owners.values():
            job = books.jobs[owner.job]
            able = any(
                cluster.state == "ACTIVE" and (not job.residency or cluster.region in job.residency)
                for cluster in books.clusters.values()
            )
            self.tested += 1
            if owner.job not in books.outcomes and (owner.stage != "HELD" or able):
                self.blame(owner.job, f"is still {owner.stage} {event.t - books.mended_at:.0f} s after all was mended")


class Residency(FederationRule):
    id, title = "F13", "nothing is offered outside its residency"

    def before(self, event: Happening) -> None:
        if not isinstance(event, OwnerWritten) or event.stage != "OFFERED":
            return
        wanted = self.books.jobs[event.job].residency
        region = self.books.clusters[event.cluster].region
        self.tested += bool(wanted)
        if wanted and region not in wanted:
            self.blame(event.job, f"may run in {', '.join(wanted)} and is offered to {event.cluster} in {region!r}")


class TermsRecompute(FederationRule):
    id, title = "F14", "the terms that were kept recompute to the score that was kept"

    def before(self, event: Happening) -> None:
        if not isinstance(event, RouteWritten):
            return
        self.tested += 1
        weights = event.weights
        for cluster, terms in event.terms.items():
            time = sum(terms[name] for name in _TIME)
            money = sum(terms[name] for name in _MONEY)
            score = (
                time + weights["money_s"] * money + weights["rtt"] * terms["rtt_s"] + weights["age"] * terms["age_s"]
            )
            if abs(score - event.scores[cluster]) > 1e-6 * max(1.0, abs(score)):
                self.blame(event.job, f"{cluster}: the terms make {score}, and {event.scores[cluster]} was kept")
        if event.scores and event.scores[event.chosen] > min(event.scores.values()):
            self.blame(event.job, f"{event.chosen} was chosen, and its score is not the least")


class CodeOnce(FederationRule):
    """Part of F1: no two jobs have one id, for no two clusters had one code."""

    id, title = "F1b", "a code of local ids is given to one cluster only"

    def __init__(self, books: FederationBooks) -> None:
        super().__init__(books)
        self._given: dict[str, tuple[str, int]] = {}

    def before(self, event: Happening) -> None:
        if isinstance(event, ClusterWritten):
            self.tested += 1
            owner = (event.cluster, event.generation)
            if self._given.setdefault(event.code, owner) != owner:
                self.blame("", f"code {event.code} was {self._given[event.code]}'s and is given to {owner}")


FEDERATION_RULES: tuple[type[FederationRule], ...] = (
    OneOwner, CodeOnce, StartAfterConfirm, AliveOnce, RefusedForGood, CurrentResult, StickyOwner, EscrowKept, HealOnce,
    LocalKnown, EndsWin, MergeLaws, OfferedSoon, Residency, TermsRecompute,
)  # fmt: skip
