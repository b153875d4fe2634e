"""Jobs that a cluster knows and the global plane does not: submitted there, or forgotten here with a restored store."""

from collections.abc import Sequence

import msgspec
import structlog
from msgspec.structs import replace

from ares.control.execution.transitions import JobChange, Transitions, Written, dated
from ares.control.federation.bounds import beyond
from ares.control.federation.offers import spec_of
from ares.control.governance.alerts import Alerts
from ares.control.state.records import Records, absent
from ares.control.state.view import View
from ares.core import keys
from ares.core.federation.clusters import code_in
from ares.core.federation.epochs import LOCAL_EPOCH, before_restore, newborn
from ares.core.federation.healing import imported
from ares.core.lifecycle import owners
from ares.core.lifecycle.graph import begin
from ares.core.lifecycle.inputs import Context, OwnerFound, OwnerTold
from ares.core.refusal import Refusal
from ares.model.cluster import Owner
from ares.model.cluster_link import GlobalMessage, Judged, LocalJob, StandingNoted
from ares.model.job import JobSpec
from ares.model.state import TERMINAL, Job, LedgerEvent, RequestRecord
from ares.ports.clock import Clock
from ares.ports.store import Compare, Op, Put, Store

log = structlog.get_logger()

# The lowest epoch that any global plane has given out.
_FIRST_GIVEN = newborn(1)


class Imports:
    def __init__(self, store: Store, view: View, transitions: Transitions, alerts: Alerts, clock: Clock) -> None:
        self._store = store
        self._records = Records(store, view)
        self._view = view
        self._alerts = alerts
        self._clock = clock
        self._transitions, self._epoch = transitions, transitions.epoch
        self._encode = msgspec.json.Encoder().encode

    async def take(self, cluster: str, told: LocalJob, *, asked: bool) -> Sequence[GlobalMessage]:
        """Once for each job, however often it is told: the job's own key says whether it is here. `asked`: healing
        wants to hear of it, so that the cluster may be its owner by what this store has forgotten."""
        job, tenant, epoch = told.offer.job, told.offer.tenant, self._owned_at(told)
        # Another replica may have taken in the job of this id just now.
        await self._view.catch_up()
        if (why := self._foreign(cluster, told)) is not None:
            log.warning("cluster.foreign_job", cluster=cluster, job=job, why=why)
            return (Judged(job=job, tenant=tenant, epoch=told.standing.epoch, do="stop", reason=why),)
        try:
            spec = spec_of(told.offer)
        except (ValueError, RecursionError) as error:
            log.error("cluster.local_job_unreadable", cluster=cluster, job=job, error=str(error))
            return ()

        async def attempt() -> Sequence[GlobalMessage] | None:
            kv = await self._store.get(keys.state(tenant, job))
            if kv is not None:
                return await self._known(cluster, tenant, told, asked=asked)
            claim = await self._claim(told)
            if isinstance(claim, str):
                reason = f"{claim} was made of the same request at the global plane"
                return (Judged(job=job, tenant=tenant, epoch=epoch, do="stop", reason=reason),)
            compares, ops, twin = claim
            state_ops = self._ops(cluster, told, spec, epoch, twin)
            if not await self._records.ensure(
                [absent(keys.state(tenant, job)), *compares], [*state_ops, *ops]
            ):  # fmt: skip
                return None
            if twin:
                await self._tell_twin(tenant, job, twin, cluster)
            return (StandingNoted(job=job, epoch=epoch, seq=told.standing.seq),)

        return await self._records.settle(f"job {job} of cluster {cluster}", attempt)

    async def _known(self, cluster: str, tenant: str, told: LocalJob, *, asked: bool) -> Sequence[GlobalMessage]:
        """It is here. After a restore its owner may be a later one than this store knows, and so may be its end."""
        job, epoch = told.offer.job, self._owned_at(told)
        standing = replace(told.standing, epoch=epoch)
        found = OwnerFound(cluster=cluster, epoch=epoch, reason=f"cluster {cluster} has it since before the restore")
        heard = OwnerTold(cluster=cluster, standing=standing)
        inputs = (found, heard) if asked else (heard,)
        (outcome,) = await self._transitions.apply([JobChange(job, tenant, inputs)])
        if isinstance(outcome, Written):
            return (StandingNoted(job=job, epoch=epoch, seq=outcome.state.owner_seq),)
        if isinstance(outcome, Refusal) and outcome.code == "terminal":
            do = "ended" if standing.phase in TERMINAL and not standing.lingering else "stop"
            return (Judged(job=job, tenant=tenant, epoch=epoch, do=do, reason=outcome.message),)
        return (StandingNoted(job=job, epoch=epoch, seq=0),)

    def _owned_at(self, told: LocalJob) -> int:
        """The epoch at which it is its cluster's: a local job's first one."""
        return told.standing.epoch or LOCAL_EPOCH

    def _foreign(self, cluster: str, told: LocalJob) -> str | None:
        """Why the cluster may not speak of this job; None when it may."""
        record, code = self._view.kept.clusters.get(cluster), code_in(told.offer.job)
        if record is None or told.standing.job != told.offer.job:
            return "it is not the cluster's"
        entry = self._view.entries.get(told.offer.job)
        if entry is not None and entry.state.tenant != told.offer.tenant:
            # Ids are unique over all tenants: a second job of this id would hide the first.
            return "its id is another job's"
        if code and code != record.code:
            return f"its id belongs to another cluster (code {code})"
        if not before_restore(self._owned_at(told), self._epoch) or (not code and told.standing.epoch < _FIRST_GIVEN):
            return "it was never given to the cluster"
        if (why := beyond(told.standing)) is not None:
            return why
        request = told.request
        return None if request is None or request.job == told.offer.job else "its request made another job"

    async def _claim(self, told: LocalJob) -> tuple[list[Compare], list[Op], str] | str:
        """What makes its request id take effect once; the job that has taken it, where that ends this one."""
        request, tenant = told.request, told.offer.tenant
        if request is None or not told.request_id:
            return [], [], ""
        key = keys.request(tenant, told.request_id)
        kv = await self._store.get(key)
        same = None if kv is None else msgspec.json.decode(kv.value, type=RequestRecord).job
        verdict = imported(told.offer.job, same, started=told.standing.attempt > 0)
        if verdict == "cancel":
            return f"job {same}"
        if same is not None:
            return [], [], "" if same == told.offer.job else same
        return [absent(key)], [Put(key, self._encode(request))], ""

    def _ops(self, cluster: str, told: LocalJob, spec: JobSpec, epoch: int, twin: str) -> list[Op]:
        offer, now = told.offer, self._clock.wall()
        context = Context(now=now, jitter=0.0, epoch=self._epoch)
        begun = begin(
            id=offer.job, tenant=offer.tenant, spec=spec, name=offer.name, submitted_by=offer.submitted_by,
            submitter_id=offer.submitter_id, trace=offer.trace, context=context, request_id=told.request_id,
            cost_estimate=offer.cost_estimate, estimated_s=offer.estimated_s,
            note=f"DUPLICATE of {twin}: submitted in cluster {cluster} too" if twin else f"from cluster {cluster}",
        )  # fmt: skip
        owner = Owner(cluster=cluster, epoch=epoch, stage="CONFIRMED")
        first = replace(begun.state, phase="WAITING", owner=owner, submitted_at=min(offer.submitted_at, now))
        entry = replace(begun.events[0], phase="WAITING", data={**begun.events[0].data, "cluster": cluster})
        standing = replace(told.standing, epoch=epoch)
        stepped = owners.told(Job(spec=spec, state=first), OwnerTold(cluster=cluster, standing=standing), context)
        state = dated(first if isinstance(stepped, Refusal) else stepped.state, self._view.kept.closed_until)
        events: tuple[LedgerEvent, ...] = () if isinstance(stepped, Refusal) else stepped.events
        ops: list[Op] = [
            Put(keys.state(state.tenant, state.id), self._encode(state)),
            Put(keys.job(state.tenant, state.id), self._encode(spec)),
            *(Put(keys.event(e.tenant, e.job, e.seq), self._encode(e)) for e in (entry, *events)),
        ]
        if not isinstance(stepped, Refusal) and stepped.result is not None:
            ops.append(Put(keys.result(state.tenant, state.id), self._encode(stepped.result)))
        return ops

    async def _tell_twin(self, tenant: str, job: str, twin: str, cluster: str) -> None:
        text = (
            f"jobs {twin} and {job} come of one request id: {job} had started in cluster {cluster} while it was cut off"
        )
        await self._alerts.raise_("duplicate-job", tenant, f"jobs/{job}", text)
