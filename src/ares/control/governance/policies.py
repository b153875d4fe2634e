"""Policies as records: checked and saved, looked at, tried on recent jobs, taken back."""

import asyncio
import heapq
from itertools import islice

import msgspec
import structlog
from msgspec.structs import replace

from ares.api.policies import Located, Tried
from ares.control.governance.policy_gate import Judging, Submission
from ares.control.state.records import Records, unchanged
from ares.control.state.view import View
from ares.core import keys
from ares.core.access.table import WIDE, scope_of
from ares.core.admit.arrays import indices
from ares.core.lifecycle.updates import in_force
from ares.core.policy.setting import settable, type_of
from ares.core.policy.verdict import PolicyVerdict
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.job import JobSpec
from ares.model.policy import Mistake, Policy, PolicyRecord
from ares.model.state import JobState
from ares.ports.clock import Clock
from ares.ports.store import KV, Delete, Op, Put, Store

log = structlog.get_logger()

# Of one tenant, or of the platform.
POLICIES_MAX = 50
VERSIONS_KEPT = 100
TRIED_MAX = 2000
# Paths beside those of policies.
RESERVED = ("check", "dry-run")
_NAMED_MAX = 50
# Jobs that are tried before others get their turn on the loop, and tasks that are passed over at most.
_SLICE = 50
_WALKED_MAX = 50_000


class Policies:
    """Policies. `tenant` "" means the platform: its policies apply to all jobs, and only operators write them."""

    def __init__(self, store: Store, view: View, clock: Clock, judging: Judging) -> None:
        self._store = store
        self._records = Records(store, view)
        self._view = view
        self._clock = clock
        self._judging = judging

    # ---- reading

    async def listed(self, who: Principal) -> tuple[PolicyRecord, ...]:
        """All that apply to the tenant's jobs: the platform's first, by name."""
        await self._view.catch_up()
        known = self._view.kept.policies
        whose = (keys.scoped("", ""), keys.scoped(who.tenant, ""))
        return tuple(known[name] for prefix in whose for name in sorted(known) if name.startswith(prefix))

    async def show(self, who: Principal, name: str, *, platform: bool) -> PolicyRecord | None:
        await self._view.catch_up()
        return self._view.kept.policies.get(keys.scoped(_whose(who, platform), name))

    async def versions(self, who: Principal, name: str, *, platform: bool) -> tuple[PolicyRecord, ...]:
        """The newest first."""
        page = await self._store.range(keys.policy_versions(_whose(who, platform), name))
        return tuple(_read(kv) for kv in reversed(page.kvs))

    def check(self, policy: Policy) -> tuple[Located, ...]:
        """All that is wrong with it, one mistake for each expression."""
        found: list[Located] = []
        ready = self._judging.ready(_record(policy, "", 0))
        for field, rule in (("when", ready.when), *((f"set.{path}", rule) for path, rule in ready.sets)):
            if field.startswith("set.") and type_of(field.removeprefix("set.")) is None:
                message = "no such field may be set"
                found.append(Located(field=field[:200], message=message, hint=f"there are {settable()}"))
            elif isinstance(rule, Mistake):
                found.append(
                    Located(field=field, message=rule.message, line=rule.line, column=rule.column, hint=rule.hint)
                )
        if bool(policy.set) != (policy.action == "set"):
            message = "nothing is set" if policy.action == "set" else f"action {policy.action} sets nothing"
            found.append(Located(field="set", message=message, hint="`set` belongs to action `set`"))
        if policy.name in RESERVED:
            found.append(Located(field="name", message=f"{policy.name} is taken by the API", hint="choose another"))
        if policy.action != "set" and not policy.message.strip():
            found.append(Located(field="message", message="it is empty", hint="say what to do about it"))
        return tuple(found)

    # ---- changing

    async def save(
        self, who: Principal, policy: Policy, *, platform: bool = False, note: str = "",
        expected_version: int | None = None,
    ) -> PolicyRecord | Refusal:  # fmt: skip
        """The policy's next version, in force at once. What changes nothing is none."""
        if (no := self._refused(who, platform) or _wrong(self.check(policy))) is not None:
            return no
        tenant = _whose(who, platform)

        async def attempt() -> PolicyRecord | Refusal | None:
            kv = await self._store.get(keys.policy(tenant, policy.name))
            base = None if kv is None else _read(kv)
            if expected_version is not None and expected_version != (base.version if base else 0):
                return _conflict(policy.name, base, expected_version)
            if base is not None and _record(policy, base.tenant, base.version) == _bare(base):
                return base
            if base is None and (no := await self._too_many(tenant)) is not None:
                return no
            record = replace(
                _record(policy, tenant, (base.version if base else 0) + 1),
                by=who.author,
                at=self._clock.wall(),
                note=note,
            )
            if not await self._write(record, kv):
                return None
            log.info("policy.saved", name=policy.name, tenant=tenant, version=record.version, by=record.by)
            return record

        return await self._records.settle(f"policy {policy.name}", attempt)

    async def revert(
        self, who: Principal, name: str, version: int, *, platform: bool = False, note: str = ""
    ) -> PolicyRecord | Refusal:
        """Writes an old version anew."""
        kept = await self.versions(who, name, platform=platform)
        old = next((record for record in kept if record.version == version), None)
        if old is None:
            there = ", ".join(str(record.version) for record in kept) or "none"
            return Refusal(code="not-found", message=f"version {version} of {name} is not kept; there are {there}")
        policy = _policy(old)
        return await self.save(who, policy, platform=platform, note=note or f"version {version} again")

    async def switch(
        self, who: Principal, name: str, *, on: bool, platform: bool = False, note: str = ""
    ) -> PolicyRecord | Refusal:
        known = await self.show(who, name, platform=platform)
        if known is None:
            return _none(name)
        return await self.save(who, replace(_policy(known), enabled=on), platform=platform, note=note)

    async def delete(self, who: Principal, name: str, *, platform: bool = False) -> Refusal | None:
        """Deletes a policy with its versions. The audit log keeps the name of the caller."""
        if (no := self._refused(who, platform)) is not None:
            return no
        tenant = _whose(who, platform)
        versions = Delete(keys.policy_versions(tenant, name), prefix=True)
        key = keys.policy(tenant, name)
        done = await self._records.delete(key, f"policy {name}", _none(name), [versions])
        if isinstance(done, Refusal):
            return done
        log.info("policy.deleted", name=name, tenant=tenant, by=who.author)
        return None

    def _refused(self, who: Principal, platform: bool) -> Refusal | None:
        """Only operators write policies of the platform."""
        if not platform or scope_of(who, "policies:admin") in WIDE:
            return None
        message = f"the role {who.role!r} does not write the platform's policies"
        return Refusal(code="forbidden", message=message, fix="write a policy of your own tenant", reason="role")

    async def _too_many(self, tenant: str) -> Refusal | None:
        await self._view.catch_up()
        prefix = keys.scoped(tenant, "")
        there = sum(name.startswith(prefix) for name in self._view.kept.policies)
        if there < POLICIES_MAX:
            return None
        message = f"there are {there} policies of {tenant or 'the platform'}, at most {POLICIES_MAX} are allowed"
        return Refusal(code="policies-full", message=message, fix="delete or merge some")

    async def _write(self, record: PolicyRecord, kv: KV | None) -> bool:
        key, value = keys.policy(record.tenant, record.name), msgspec.json.encode(record)
        ops: list[Op] = [Put(key, value), Put(_version_key(record, record.version), value)]
        if record.version > VERSIONS_KEPT:
            ops.append(Delete(_version_key(record, record.version - VERSIONS_KEPT)))
        return await self._records.ensure([unchanged(key, kv)], ops)

    # ---- trying

    async def try_out(
        self, who: Principal, policy: Policy, *, platform: bool = False, since: float = 0.0, limit: int = 500
    ) -> Tried | Refusal:
        """On jobs that were submitted since then, the newest first. Changes nothing."""
        if (no := self._refused(who, platform) or _wrong(self.check(policy))) is not None:
            return no
        await self._view.catch_up()
        ready = self._judging.ready(_record(policy, _whose(who, platform), 0))
        matched: list[str] = []
        failed: list[str] = []
        looked_at, why = 0, ""
        for place, state in enumerate(self._recent(who.tenant, platform, since, min(limit, TRIED_MAX))):
            if place % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            spec = await self._spec(state)
            if spec is None:
                continue
            judged = self._judging.try_one(ready, self._submission(state, spec), who.tenant)
            if judged is None:
                break
            looked_at += 1
            if judged.rejected is not None and judged.rejected.unanswered:
                failed.append(state.array or state.id)
                why = why or judged.rejected.message
            elif _touched(judged, spec):
                matched.append(state.array or state.id)
        return Tried(
            policy=policy.name,
            action=policy.action,
            looked_at=looked_at,
            matched=len(matched),
            failed=len(failed),
            text=_words(policy, len(matched), len(failed), looked_at),
            jobs=tuple(matched[:_NAMED_MAX]),
            failed_jobs=tuple(failed[:_NAMED_MAX]),
            why_failed=why,
        )

    def _recent(self, tenant: str, platform: bool, since: float, limit: int) -> list[JobState]:
        """The newest first, of an array one task."""
        order = self._view.order
        whose = order.values() if platform else (order.get(tenant, []),)
        newest = heapq.merge(*(reversed(places) for places in whose), reverse=True)
        found: list[JobState] = []
        arrays: set[str] = set()
        for _, job in islice(newest, _WALKED_MAX):
            state = self._view.entries[job].state
            if state.submitted_at < since or len(found) == limit:
                break
            if state.array is None or state.array not in arrays:
                arrays.add(state.array or "")
                found.append(state)
        return found

    async def _spec(self, state: JobState) -> JobSpec | None:
        known = self._view.spec(state)
        if known is not None:
            return known
        kv = await self._store.get(keys.job(state.tenant, state.array or state.id))
        return None if kv is None else in_force(self._view.decode_spec(kv.value), state)

    def _submission(self, state: JobState, spec: JobSpec) -> Submission:
        """As near as the record comes to what the submission was: its role is not kept."""
        user = self._view.kept.users.get(f"{state.tenant}/{state.submitted_by}")
        submitter = Principal(
            token_id=state.submitted_by,
            tenant=state.tenant,
            role="submitter" if user is None else user.role,
            user="" if user is None else user.name,
            team=None if user is None else user.team,
        )
        found = None if spec.array is None else indices(spec.array)
        tasks = len(found) if isinstance(found, tuple) else 1
        return Submission(submitter, spec, tasks=tasks, is_retry=state.retry_of is not None, at=state.submitted_at)


def _whose(who: Principal, platform: bool) -> str:
    return "" if platform else who.tenant


def _read(kv: KV) -> PolicyRecord:
    return msgspec.json.decode(kv.value, type=PolicyRecord)


def _record(policy: Policy, tenant: str, version: int) -> PolicyRecord:
    fields = {name: getattr(policy, name) for name in Policy.__struct_fields__}
    return PolicyRecord(**fields, tenant=tenant, version=version)


def _policy(record: PolicyRecord) -> Policy:
    return Policy(**{name: getattr(record, name) for name in Policy.__struct_fields__})


def _bare(record: PolicyRecord) -> PolicyRecord:
    return replace(record, by="", at=0.0, note="")


def _version_key(record: PolicyRecord, version: int) -> str:
    return keys.policy_version(record.tenant, record.name, version)


def _touched(judged: PolicyVerdict, before: JobSpec) -> bool:
    return bool(judged.rejected or judged.warnings or judged.alerts) or judged.spec != before


_DONE = {"reject": "rejected", "warn": "warned about", "set": "changed", "alert": "raised an alert for"}


def _words(policy: Policy, matched: int, failed: int, looked_at: int) -> str:
    said = f"would have {_DONE[policy.action]} {matched} of {looked_at} jobs"
    return f"{said}, and rejected {failed} more that it has no answer for" if failed else said


def _wrong(mistakes: tuple[Located, ...]) -> Refusal | None:
    if not mistakes:
        return None
    message = "; ".join(mistake.words for mistake in mistakes)
    return Refusal(code="policy-invalid", message=message, path=f"$.{mistakes[0].field}")


def _none(name: str) -> Refusal:
    return Refusal(code="not-found", message=f"there is no policy {name!r}")


def _conflict(name: str, base: PolicyRecord | None, expected: int) -> Refusal:
    there = f"version {base.version} by {base.by} is in force" if base else "there is none"
    message = f"policy {name}: {there} and it was to be changed from version {expected}"
    return Refusal(code="policy-conflict", message=message, fix="look at it and try again")
