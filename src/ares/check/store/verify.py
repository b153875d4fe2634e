"""`ares verify`: one pass through the store, and a report."""

import re
from collections.abc import Callable, Iterator
from itertools import chain

from ares.check.store import kinds
from ares.check.store.books import check_books
from ares.check.store.cluster import MachineTable, check_reservations
from ares.check.store.findings import Findings, VerifyReport
from ares.check.store.jobs import MANUAL_RETRIES_MAX, check_job
from ares.check.store.reading import JobRecords, Reader
from ares.check.store.requests import RequestClaim, RequestTable, claim_of_job, claim_of_request, compare, explain
from ares.model.access import TokenRecord
from ares.model.job import JobSpec, projects_of
from ares.model.link import AttemptRef
from ares.model.state import ArrayRecord, FlowRecord, OutputFile
from ares.ports.store import Progress, Snapshot, StoreError

_TICK_EVERY = 1000
_NODE_ROLE = "node"
_CLUSTER_ROLE = "cluster"
_SHA256 = re.compile(r"[0-9a-f]{64}")


# What is wrong with a file that an attempt handed over, in words; nothing when nothing is.
OutputFlaws = Callable[[AttemptRef, OutputFile], str]
# The same of a project that a job starts with, by tenant and digest.
ProjectFlaws = Callable[[str, str], str]


class VerifyOptions:
    """What to look at. `keep_s`: how long finished jobs are kept, which is why tasks of old arrays may be gone."""

    def __init__(
        self,
        *,
        now: float,
        keep_s: float,
        tenant: str = "",
        job: str = "",
        output_flaws: OutputFlaws | None = None,
        project_flaws: ProjectFlaws | None = None,
    ) -> None:
        self.now = now
        self.keep_s = keep_s
        self.tenant = tenant
        self.job = job
        self.output_flaws = output_flaws
        self.project_flaws = project_flaws


class UnknownJob(Exception):
    """The store has nothing of the job asked about."""

    fix = "check the id with `ares jobs`, and the tenant with --tenant"


def verify(snapshot: Snapshot, wanted: VerifyOptions, progress: Progress = lambda done, total: None) -> VerifyReport:
    """Raises StoreError when the store cannot be read at all."""
    findings = Findings()
    findings.looked("storage")
    for what in snapshot.damage():
        findings.wrong("storage", what)
    run = _Verification(snapshot, wanted, findings, progress)
    try:
        run.all()
    except StoreError as error:
        if not findings.checks()[0].violations:
            raise
        # Damaged storage explains it, and was told.
        findings.notes.append(f"not everything could be looked at: {error}")
    return VerifyReport(
        revision=snapshot.revision,
        epoch=run.epoch,
        jobs=run.jobs,
        checks=findings.checks(),
        notes=tuple(dict.fromkeys(findings.notes)),
    )


class _Verification:
    def __init__(self, snapshot: Snapshot, wanted: VerifyOptions, findings: Findings, progress: Progress) -> None:
        self._snapshot = snapshot
        self._wanted = wanted
        self._findings = findings
        self._progress = progress
        self._done = 0
        self._total = 0
        self._reader = Reader(snapshot, findings, self._tick)
        self._requests = RequestTable()
        self._array: _Array | None = None
        self._projects: set[tuple[str, str]] = set()
        self.epoch = 0
        self.jobs = 0

    def all(self) -> None:
        self.epoch = self._read_epoch()
        if self._wanted.job:
            self._one_job()
            return
        scope = f"{self._wanted.tenant}/" if self._wanted.tenant else ""
        self._total = self._count(scope)
        if scope:
            self._findings.notes.append("machines, reservations and tokens are looked at without --tenant only")
        machines = None if scope else MachineTable(self._reader, self._findings)
        for job in self._reader.jobs(scope):
            self._take(job)
            if machines is not None and job.the_state is not None:
                machines.take(job.the_state)
        self._end_array()
        for claim in self._flow_claims(scope, self._reader):
            self._findings.looked("workflows")
            self._requests.made(claim)
        self._check_requests(scope)
        if machines is not None:
            machines.judge()
            check_reservations(self._reader, self._findings)
            check_books(self._reader, self._findings)
            self._check_rest()

    def _tick(self) -> None:
        self._done += 1
        if self._done % _TICK_EVERY == 0 or self._done == self._total:
            self._progress(min(self._done, self._total), self._total)

    def _count(self, scope: str) -> int:
        known = sum(self._snapshot.count(f"{kind.prefix}{scope}") for kind in (*kinds.PER_JOB, kinds.REQUESTS))
        if scope:
            return known
        known += sum(self._snapshot.count(kind.prefix) for kind in kinds.OF_ALL)
        foreign = self._snapshot.count("/") - known
        if foreign:
            self._findings.notes.append(f"{foreign} keys are of kinds that this version does not know")
        return known

    def _read_epoch(self) -> int:
        kv = self._snapshot.get(kinds.EPOCH.prefix)
        kept = None if kv is None else self._reader.one(kinds.EPOCH, kv)
        if kv is None:
            self._findings.wrong("records", "the store has no epoch: no server has ever used it, or the record is lost")
        return 0 if kept is None else kept.record.epoch

    # ---- jobs

    def _one_job(self) -> None:
        tenant, job_id = self._wanted.tenant or self._tenant_of(self._wanted.job), self._wanted.job
        job = self._reader.job(tenant, job_id)
        array = self._reader.job(tenant, job_id.partition("_")[0]) if "_" in job_id else None
        if job.state is None and job.array is None and not job.unread:
            raise UnknownJob(f"the store has no job {job_id}{f' of tenant {tenant}' if tenant else ''}")
        self.jobs = 1
        self._check_outputs(job)
        self._check_project(job)
        check_job(job, array.the_spec if array is not None else job.the_spec, self.epoch, self._findings)
        made = claim_of_job(job)
        if made is not None:
            self._findings.looked("requests")
            kv = self._snapshot.get(f"{kinds.REQUESTS.prefix}{made.request}")
            kept = None if kv is None else self._reader.one(kinds.REQUESTS, kv)
            for what in compare(made, None if kept is None else claim_of_request(made.request, kept.record)):
                self._findings.wrong("requests", f"request {made.request}: {what}")

    def _tenant_of(self, job_id: str) -> str:
        """Its keys begin with the tenant: without one, each tenant there is is asked."""
        for tenant in self._tenants():
            if any(
                self._snapshot.get(f"{k.prefix}{tenant}/{kinds.turned(job_id)}") for k in (kinds.STATES, kinds.ARRAYS)
            ):
                return tenant
        return ""

    def _tenants(self) -> Iterator[str]:
        tokens = (kept.record for _, kept in self._reader.all(kinds.TOKENS))
        yield from sorted({record.tenant for record in tokens})

    def _take(self, job: JobRecords) -> None:
        base, task, _ = job.id.partition("_")
        if self._array is not None and (not task or not self._array.has(job.tenant, base)):
            self._end_array()
        if job.the_array is not None:
            self._findings.looked("arrays")
            self._array = _Array(job.the_array, job.the_spec, self._wanted)
        elif job.the_state is not None:
            self.jobs += 1
            self._check_outputs(job)
        self._check_project(job)
        check_job(job, self._spec(job), self.epoch, self._findings)
        if job.the_retries is not None and len(job.the_retries.jobs) > MANUAL_RETRIES_MAX:
            self._findings.wrong("budgets", f"job {job.id} was retried {len(job.the_retries.jobs)} times by hand")
        claim = claim_of_job(job)
        if claim is not None:
            self._requests.made(claim)

    def _check_project(self, job: JobRecords) -> None:
        """Once for all jobs that name it."""
        spec, flaws = job.the_spec, self._wanted.project_flaws
        if flaws is None or spec is None:
            return
        for project in projects_of(spec):
            if (job.tenant, project) in self._projects:
                continue
            self._projects.add((job.tenant, project))
            self._findings.looked("projects")
            if what := flaws(job.tenant, project):
                self._findings.wrong("projects", f"project {project[:12]} of job {job.id}: {what}")

    def _check_outputs(self, job: JobRecords) -> None:
        result, state, flaws = job.the_result, job.the_state, self._wanted.output_flaws
        if flaws is None or result is None or state is None:
            return
        if (state.ended_at or 0.0) < self._wanted.now - self._wanted.keep_s:
            # Just being forgotten: its files may be gone before its records.
            return
        ref = AttemptRef(job=job.id, tenant=job.tenant, fence=result.fence)
        for file in result.outputs:
            self._findings.looked("outputs")
            if what := flaws(ref, file):
                self._findings.wrong("outputs", f"job {job.id}, {file.path}: {what}")

    def _spec(self, job: JobRecords) -> JobSpec | None:
        state = job.the_state
        if state is None or state.array is None:
            return job.the_spec
        if self._array is None or self._array.id != state.array:
            self._findings.wrong("arrays", f"task {job.id} is there, and array {state.array} is not")
            return None
        for what in self._array.take(job.id, state.index):
            self._findings.wrong("arrays", what)
        return self._array.spec

    def _end_array(self) -> None:
        if self._array is not None:
            for what in self._array.missing():
                self._findings.wrong("arrays", what)
        self._array = None

    # ---- requests

    def _check_requests(self, scope: str) -> None:
        for claim in self._kept(scope, self._reader):
            self._findings.looked("requests")
            self._requests.kept(claim)
        buckets, more = self._requests.differing()
        if not buckets:
            return
        # What cannot be read was told the first time.
        quiet = Reader(self._snapshot, Findings(), lambda: None)
        made = (claim for job in quiet.jobs(scope) if (claim := claim_of_job(job)) is not None)
        made = chain(made, self._flow_claims(scope, quiet))
        explain(made, self._kept(scope, quiet), buckets, self._findings)
        if more:
            self._findings.notes.append(f"requests: about {more} more are wrong than are listed")

    @staticmethod
    def _flow_claims(scope: str, reader: Reader) -> Iterator[RequestClaim]:
        """What workflows say about the requests they came by."""
        for _, kept in reader.all(kinds.FLOWS, scope):
            flow: FlowRecord = kept.record
            yield RequestClaim(f"{flow.tenant}/{flow.request_id}", flow.id, flow.payload_sha256)

    @staticmethod
    def _kept(scope: str, reader: Reader) -> Iterator[RequestClaim]:
        return (claim_of_request(tail, kept.record) for tail, kept in reader.all(kinds.REQUESTS, scope))

    # ---- the rest

    def _check_rest(self) -> None:
        for _, kept in self._reader.all(kinds.TOKENS):
            token: TokenRecord = kept.record
            self._findings.looked("tokens")
            if not _SHA256.fullmatch(token.sha256):
                self._findings.wrong("tokens", f"token {token.id}: its digest is not one")
            role = _CLUSTER_ROLE if token.cluster is not None else _NODE_ROLE
            if (token.node is not None or token.cluster is not None or token.single_use) and token.role != role:
                self._findings.wrong("tokens", f"token {token.id} admits a machine, with the role {token.role}")
        for _, kept in self._reader.all(kinds.FORMAT):
            if kept.record.format > kinds.KNOWN_FORMAT:
                what = f"the store is of format {kept.record.format}, these checks know {kinds.KNOWN_FORMAT}"
                self._findings.notes.append(f"{what}: use those of the version that wrote it")
        for kind in (
            kinds.LEADERS,
            kinds.PROFILES,
            kinds.SHADOW,
            kinds.BOOKINGS,
            kinds.PREDICTIONS,
            kinds.MODEL,
            kinds.PROOF,
            kinds.CHECKPOINTS,
            kinds.SEALING,
            kinds.INSIGHTS,
        ):
            for _ in self._reader.all(kind):
                pass


class _Array:
    """The array whose tasks are being read."""

    def __init__(self, record: ArrayRecord, spec: JobSpec | None, wanted: VerifyOptions) -> None:
        self.id = record.id
        self.spec = spec
        self._record = record
        self._indices = indices(record.indices)
        self._seen = 0
        # Tasks are forgotten one by one, so long after they ended.
        self._forgotten = record.submitted_at < wanted.now - wanted.keep_s

    def has(self, tenant: str, array: str) -> bool:
        return (tenant, array) == (self._record.tenant, self.id)

    def take(self, job: str, index: int | None) -> Iterator[str]:
        self._seen += 1
        if index is None or job != f"{self.id}_{index}" or not any(index in part for part in self._indices):
            yield f"task {job} (index {index}) is not one of {self._record.indices}"

    def missing(self) -> Iterator[str]:
        record, count = self._record, sum(map(len, self._indices))
        if record.tasks != count:
            yield f"array {self.id} has {record.tasks} tasks by its record, {count} by its indices {record.indices}"
        if self.spec is None:
            yield f"array {self.id} has no specification"
        if record.expanded and self._seen != record.tasks and not self._forgotten:
            yield f"array {self.id} has {self._seen} of its {record.tasks} tasks"


def indices(text: str) -> list[range]:
    """ "0-9,20,30-90:10%8", where the throttle after % takes no task away. What does not look like that has none."""
    found: list[range] = []
    for part in text.partition("%")[0].split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if match is not None:
            first = int(match[1])
            found.append(range(first, int(match[2] or first) + 1, int(match[3] or 1) or 1))
    return found
