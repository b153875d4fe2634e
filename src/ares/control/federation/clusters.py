"""The clusters of a global plane: their records, what they last reported, and what people do with them."""

from collections.abc import Callable, Sequence

import msgspec
import structlog
from msgspec.structs import replace

from ares.api.nodes import MemberView
from ares.control.access.machines import MachineAuthority
from ares.control.execution.enrolment import SessionRefused
from ares.control.federation.owner_index import OwnerIndex
from ares.control.governance.lent_quotas import LentQuotas
from ares.control.state.records import Records, unchanged
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.federation import clusters as rules
from ares.core.federation.escrow import lent
from ares.core.federation.merge import Version
from ares.core.federation.reports import reach, supersedes
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.cluster import ClusterRecord
from ares.model.cluster_link import ClusterHello
from ares.model.uplink import ClusterReport
from ares.ports.clock import Clock
from ares.ports.store import Committed, Delete, Op, Put, Store

log = structlog.get_logger()
_encode = msgspec.json.encode

NO_CLUSTER = Refusal(code="not-found", message="there is no cluster of that name", fix="`ares cluster list` names them")
# A cluster whose clock is further off could not tell whether certificates are good.
_CLOCK_OFF_S = 300.0
Change = Callable[[ClusterRecord], ClusterRecord | Refusal]


class Clusters:
    def __init__(
        self, store: Store, view: View, authority: MachineAuthority, index: OwnerIndex, clock: Clock, epoch: int,
        lent: LentQuotas,
    ) -> None:  # fmt: skip
        self._epoch, self._lent = epoch, lent
        self._store = store
        self._records = Records(store, view)
        self._view = view
        self._authority = authority
        self._index = index
        self._clock = clock
        # The revision of each report, and when this process saw it change, by the monotonic clock.
        self._heard: dict[str, tuple[int, float]] = {}
        view.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if keys.REPORTS not in delta.kept:
            return
        for name, revision in self._view.kept.reports.revisions.items():
            # A relist is no sign of life: only another revision is.
            if self._heard.get(name, (0, 0.0))[0] != revision:
                self._heard[name] = (revision, self._clock.monotonic())

    # ---- what is known

    def report(self, name: str) -> ClusterReport | None:
        return self._view.kept.reports.get(name)

    def age_s(self, name: str) -> float | None:
        """Since this replica last heard of the cluster; None when it never did."""
        heard = self._heard.get(name)
        return None if heard is None else self._clock.monotonic() - heard[1]

    @property
    def records(self) -> dict[str, ClusterRecord]:
        return self._view.kept.clusters

    async def list(self, who: Principal) -> Sequence[MemberView]:
        await self._view.catch_up()
        return [self._shown(record) for _, record in sorted(self.records.items())]

    async def show(self, who: Principal, name: str) -> MemberView | Refusal:
        await self._view.catch_up()
        record = self.records.get(name)
        return NO_CLUSTER if record is None else replace(self._shown(record), lent=self._lent.of_cluster(name))

    def _shown(self, record: ClusterRecord) -> MemberView:
        report, age = self.report(record.name), self.age_s(record.name)
        offered, confirmed = self._index.counts(record.name)
        over = record.state in rules.OVER
        return MemberView(
            name=record.name, code=record.code, kind=record.kind, state=record.state, region=record.region,
            generation=record.generation, epoch=record.epoch, note=record.note, since=record.since,
            reach="" if over else "UNREACHABLE" if age is None else reach(age),
            heard_s=age, offered=offered, confirmed=confirmed, report=None if over else report,
        )  # fmt: skip

    # ---- links

    async def admit(self, hello: ClusterHello) -> ClusterRecord:
        """The cluster's record when it connects: made at its first time. Raises SessionRefused."""
        if abs(hello.wall - self._clock.wall()) > _CLOCK_OFF_S:
            off = hello.wall - self._clock.wall()
            raise SessionRefused(
                f"the clock of cluster {hello.name} is {off:+.0f} s off; set it, at most 300 s are well"
            )
        key = keys.cluster(hello.name)

        async def attempt() -> ClusterRecord | Refusal | None:
            kv, known = await self._records.read(key, ClusterRecord) or (None, None)
            if known is None or (hello.generation == 0 and known.state in rules.OVER):
                found: ClusterRecord | Refusal = await self._joined(hello, known)
            else:
                found = rules.hello(known, hello.generation or known.generation, hello.store_epoch)
                # Its new epoch is written when all that it may have lost is settled.
                found = found if isinstance(found, Refusal) else replace(known, region=hello.region)
            if isinstance(found, Refusal) or found == known:
                return found
            ops: list[Op] = [Put(key, _encode(found))]
            if known is not None and found.generation != known.generation:
                # Numbers of reports begin anew with the cluster.
                ops.append(Delete(keys.report(hello.name)))
            return found if await self._records.ensure([unchanged(key, kv)], ops) else None

        found = await self._records.settle(f"cluster {hello.name}", attempt)
        if isinstance(found, Refusal):
            raise SessionRefused(f"{found.message}; {found.fix}", "not_granted")
        return found

    async def _joined(self, hello: ClusterHello, before: ClusterRecord | None) -> ClusterRecord:
        await self._view.catch_up()
        # A cluster that was here before, and that this store has forgotten: its generation goes on.
        returns = before is None and hello.generation > 0
        codes = [record.code for record in self.records.values()]
        code = rules.next_code(codes, self._epoch, hello.code if returns else "")
        generation = hello.generation if returns else 1 if before is None else before.generation + 1
        log.info("cluster.joined", cluster=hello.name, generation=generation)
        return ClusterRecord(
            name=hello.name, code=code, state="ACTIVE", generation=generation,
            epoch=hello.store_epoch, region=hello.region, since=self._clock.wall(),
        )  # fmt: skip

    async def healed(self, name: str, store_epoch: int, own_epoch: int) -> None:
        """Nothing of what either side may have lost with an older store is open any more."""
        await self._change(
            name, lambda record: replace(record, epoch=max(record.epoch, store_epoch), healed_in=own_epoch)
        )

    def is_rebuilt(self, own_epoch: int) -> bool:
        """Whether every cluster has healed since this global plane's store was last restored: until then a job that was
        in the backup may run in any of them."""
        return all(record.healed_in >= own_epoch or record.state in rules.OVER for record in self.records.values())

    async def heard(self, report: ClusterReport, generation: int) -> bool:
        """Kept for every replica, if so. A late one is dropped, and so is one of an earlier cluster of this name."""
        name, kept = report.cluster, self._view.kept
        record, known = kept.clusters.get(name), kept.reports.get(name)
        if record is None or record.generation != generation or record.state in rules.OVER:
            return False
        before = None if known is None else Version(known.incarnation, known.seq)
        if supersedes(Version(report.incarnation, report.seq), before):
            compares = [kept.clusters.unchanged(name), kept.reports.unchanged(name)]
            written = await self._store.txn(compares, [Put(keys.report(name), _encode(report))])
            return isinstance(written, Committed) and written.succeeded
        return False

    # ---- what people do

    async def drain(self, who: Principal, name: str, reason: str) -> MemberView | Refusal:
        """No offers from now on; what has not begun there comes back."""
        return await self._step(who, name, "drain", reason or f"drained by {who.author}")

    async def resume(self, who: Principal, name: str) -> MemberView | Refusal:
        return await self._step(who, name, "resume", "")

    async def declare_dead(self, who: Principal, name: str, reason: str) -> MemberView | Refusal:
        """It does not come back: all it had is placed anew, and its certificate is good for nothing."""
        done = await self._step(who, name, "declare-dead", f"declared dead by {who.author}: {reason}")
        if not isinstance(done, Refusal):
            await self._authority.revoke(who, "cluster", name)
            log.warning("cluster.dead", cluster=name, by=who.author, reason=reason, jobs=done.confirmed)
        return done

    def is_lent(self, name: str) -> bool:
        """Whether it has quota that it has not given back."""
        return any(lent(record.escrow) for record in self._view.kept.escrow.values() if record.cluster == name)

    async def emptied(self, name: str) -> bool:
        """A drained cluster has nothing left that it was told to give back or to finish."""
        done = await self._change(name, lambda record: rules.step(record, "emptied", self._clock.wall(), record.note))
        return not isinstance(done, Refusal)

    async def _step(self, who: Principal, name: str, asked: rules.ClusterInput, note: str) -> MemberView | Refusal:
        done = await self._change(name, lambda record: rules.step(record, asked, self._clock.wall(), note[:1000]))
        return done if isinstance(done, Refusal) else self._shown(done)

    async def _change(self, name: str, change: Change) -> ClusterRecord | Refusal:
        key = keys.cluster(name)

        async def attempt() -> ClusterRecord | Refusal | None:
            found = await self._records.read(key, ClusterRecord)
            if found is None:
                return NO_CLUSTER
            kv, record = found
            changed = change(record)
            if isinstance(changed, Refusal) or changed == record:
                return changed
            ops: list[Op] = [Put(key, _encode(changed))]
            if changed.state in rules.OVER:
                # What it was lent is free again: whatever it still admits counts nothing.
                ops.append(Delete(keys.escrow(name, ""), prefix=True))
            return changed if await self._records.ensure([unchanged(key, kv)], ops) else None

        return await self._records.settle(f"the state of cluster {name}", attempt)
