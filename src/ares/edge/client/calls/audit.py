"""Requests about the audit log, as values like those in `calls`, and what they are answered."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from msgspec import structs

from ares.api.audit import AuditHeadList, AuditMonth, AuditPage, AuditVerified, ChainSeen
from ares.edge.client.addresses import Tour
from ares.edge.client.calls.calls import Call, Reply, Request, read_problem
from ares.edge.client.flows import SILENCE_S, Flows
from ares.edge.client.sending import AsyncSends, Sends
from ares.edge.client.steps import Broken, Emit, Flow, Open, Read
from ares.model.audit import AuditEntry


class Filters(TypedDict, total=False):
    """What to look for. Times are seconds since 1970."""

    who: str
    tenant: str
    operation: str
    outcome: str
    reason: str
    object: str
    since: float
    until: float
    text: str


def search(filters: Filters, *, limit: int = 100, cursor: str = "") -> Call[AuditPage]:
    return _get("/v1/audit", AuditPage, {**filters, "limit": limit, "cursor": cursor})


def heads() -> Call[AuditHeadList]:
    return _get("/v1/audit/heads", AuditHeadList, {})


def verified() -> Call[AuditVerified]:
    return _get("/v1/audit/verify", AuditVerified, {})


def month(name: str = "", tenant: str = "", *, since: float = 0.0, until: float = 0.0) -> Call[AuditMonth]:
    """A month by its name, or a period."""
    return _get("/v1/audit/summary", AuditMonth, {"month": name, "tenant": tenant, "since": since, "until": until})


def merged(months: Sequence[AuditMonth]) -> AuditMonth:
    """What several replicas counted of one period, as one."""
    operations: dict[str, Counter[str]] = {}
    denials: Counter[str] = Counter()
    for replica in months:
        denials.update(replica.summary.denials)
        for name, outcomes in replica.summary.operations.items():
            operations.setdefault(name, Counter()).update(outcomes)
    summaries = [replica.summary for replica in months]
    chains: dict[str, ChainSeen] = {}
    for chain in (chain for replica in months for chain in replica.chains):
        chains[chain.chain] = chain if chain.here else chains.get(chain.chain, chain)
    return AuditMonth(
        summary=structs.replace(
            summaries[0],
            entries=sum(summary.entries for summary in summaries),
            operations={name: dict(found) for name, found in sorted(operations.items())},
            denials=dict(denials.most_common()),
            break_glass=tuple(
                sorted((entry for summary in summaries for entry in summary.break_glass), key=lambda entry: entry.at)
            ),
            changes=tuple(
                sorted((entry for summary in summaries for entry in summary.changes), key=lambda entry: entry.at)
            ),
            policy_violations=sum(summary.policy_violations for summary in summaries),
            quota_rejections=sum(summary.quota_rejections for summary in summaries),
            left_out=sum(summary.left_out for summary in summaries),
            until=max(summary.until for summary in summaries),
        ),
        chains=tuple(chains[name] for name in sorted(chains)),
    )


def export(flows: Flows, filters: Filters, format_: str) -> Flow[None]:
    """Emits the bytes as they come. An export that breaks off is not resumed: the caller starts it again."""
    request = Request("GET", "/v1/audit/export", _params({**filters, "format": format_}))
    tour = Tour(flows.addresses)
    while True:
        opened: Reply | Broken = yield Open(request, tour.next(), SILENCE_S)
        if not tour.note(opened):
            break
    if isinstance(opened, Reply) and opened.status >= 400:
        raise read_problem(opened, request)
    chunk: bytes | Broken = opened if isinstance(opened, Broken) else (yield Read())
    while chunk:
        if isinstance(chunk, Broken):
            raise flows.failure(chunk, request, tour)
        yield Emit(chunk)
        chunk = yield Read()


def _get(path: str, kind: Any, params: Mapping[str, object]) -> Call[Any]:
    return Call(Request("GET", path, _params(params)), kind)


def _params(params: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple((key, str(value)) for key, value in params.items() if value not in (None, "", 0.0))


class AsyncAuditMethods(AsyncSends):
    """The audit log, of the asynchronous client."""

    async def audit(self, *, page: int = 100, **filters: Unpack[Filters]) -> AsyncIterator[AuditEntry]:
        """Entries on the disk of the replica that answers, the newest first, page by page as you go on."""
        cursor = ""
        while True:
            found = await self.send(search(filters, limit=page, cursor=cursor))
            for entry in found.entries:
                yield entry
            if not found.cursor:
                return
            cursor = found.cursor

    def audit_export(self, format: str = "jsonl", **filters: Unpack[Filters]) -> AsyncIterator[bytes]:  # noqa: A002
        """All entries that match, the oldest first, as "jsonl" or "csv", in pieces."""
        return self._iterate(export(self._flows, filters, format))

    async def audit_verify(self) -> AuditVerified:
        """Whether the chains on the disk of the replica that answers hold."""
        return await self.send(verified())

    async def audit_heads(self) -> AuditHeadList:
        """The signed heads of all chains."""
        return await self.send(heads())

    async def audit_summary(
        self, month_: str = "", tenant: str = "", *, since: float = 0.0, until: float = 0.0
    ) -> AuditMonth:
        """A month, such as "2026-11", or a period, in numbers."""
        return await self.send(month(month_, tenant, since=since, until=until))


class AuditMethods(Sends):
    """The audit log, of the blocking client, generated."""

    def audit(self, *, page: int = 100, **filters: Unpack[Filters]) -> Iterator[AuditEntry]:
        """Entries on the disk of the replica that answers, the newest first, page by page as you go on."""
        cursor = ""
        while True:
            found = self.send(search(filters, limit=page, cursor=cursor))
            yield from found.entries
            if not found.cursor:
                return
            cursor = found.cursor

    def audit_export(self, format: str = "jsonl", **filters: Unpack[Filters]) -> Iterator[bytes]:  # noqa: A002
        """All entries that match, the oldest first, as "jsonl" or "csv", in pieces."""
        return self._iterate(export(self._flows, filters, format))

    def audit_verify(self) -> AuditVerified:
        """Whether the chains on the disk of the replica that answers hold."""
        return self.send(verified())

    def audit_heads(self) -> AuditHeadList:
        """The signed heads of all chains."""
        return self.send(heads())

    def audit_summary(
        self, month_: str = "", tenant: str = "", *, since: float = 0.0, until: float = 0.0
    ) -> AuditMonth:
        """A month, such as "2026-11", or a period, in numbers."""
        return self.send(month(month_, tenant, since=since, until=until))
