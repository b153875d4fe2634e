"""The scheduling profile: read, changed and reverted at run time. Every change is a new version; a write that
changes nothing makes none."""

from collections.abc import Mapping

import msgspec
import structlog
from msgspec.structs import replace

from ares.control.state.records import Records, absent
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.access.table import sees_all
from ares.core.refusal import Refusal
from ares.core.schedule.profiles import BadSetting, changed, wrong
from ares.model.access import Principal
from ares.model.profile import Profile, ProfileRecord
from ares.ports.clock import Clock
from ares.ports.store import Delete, Op, Put, Store
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

VERSIONS_KEPT = 100


class Profiles:
    def __init__(self, store: Store, view: View, clock: Clock, telemetry: Telemetry) -> None:
        self._records = Records(store, view)
        self._view = view
        self._clock = clock
        self._telemetry = telemetry
        self._shown = -1
        view.subscribe(self._on_delta)

    # ---- reading

    async def current(self) -> ProfileRecord:
        await self._view.catch_up()
        return self._view.profile

    async def versions(self) -> tuple[ProfileRecord, ...]:
        """The newest first. Version 0, the built-in profile, is not among them."""
        await self._view.catch_up()
        return tuple(self._view.profiles[version] for version in sorted(self._view.profiles, reverse=True))

    # ---- changing

    async def put(
        self, who: Principal, profile: Profile, note: str = "", expected_version: int | None = None
    ) -> ProfileRecord | Refusal:
        """The profile becomes the next version, unless another did since the caller read it, or it is in force."""
        await self._view.catch_up()
        return await self._write(who, profile, note, expected_version, self._view.profile)

    async def change(
        self, who: Principal, sets: Mapping[str, str], note: str = "", expected_version: int | None = None
    ) -> ProfileRecord | Refusal:
        """Single settings, on top of what is in force: made again when another change came in between."""

        async def attempt() -> ProfileRecord | Refusal | None:
            await self._view.catch_up()
            base = self._view.profile
            try:
                profile = changed(base.profile, sets)
            except BadSetting as error:
                return Refusal(code="profile-invalid", message=str(error))
            written = await self._write(who, profile, note, expected_version, base)
            lost = isinstance(written, Refusal) and written.code == "profile-conflict"
            return written if not lost or expected_version is not None else None

        return await self._records.settle("the change of the profile", attempt, seen=False)

    async def revert(self, who: Principal, version: int, note: str = "") -> ProfileRecord | Refusal:
        """Writes an old version as a new one. Version 0 is the built-in profile."""
        await self._view.catch_up()
        base, old = self._view.profile, self._view.profiles.get(version)
        if old is None and version != 0:
            kept = ", ".join(map(str, sorted(self._view.profiles))) or "none"
            message = f"version {version} is not kept; there are 0 and {kept}"
            return Refusal(code="no-such-version", message=message)
        profile = Profile() if old is None else old.profile
        return await self._write(who, profile, note or f"version {version} again", base.version, base)

    async def _write(
        self, who: Principal, profile: Profile, note: str, expected_version: int | None, base: ProfileRecord
    ) -> ProfileRecord | Refusal:
        why = wrong(profile)
        if why:
            return Refusal(code="profile-invalid", message=why)
        if expected_version not in (None, base.version):
            return _conflict(base, f"it was to be changed from version {expected_version}")
        if profile == base.profile:
            return base
        record = ProfileRecord(
            version=base.version + 1, profile=profile, by=who.author, at=self._clock.wall(), note=note
        )
        found = await self._create(record)
        if found != record:
            return _conflict(found, "another change came first")
        log.info("profile.changed", version=record.version, by=record.by, token=who.token_id, note=note)
        return record

    def written(self, record: ProfileRecord) -> list[Op]:
        """What writes a version, and takes away those that are too old to be kept."""
        oldest = record.version - VERSIONS_KEPT
        old = (version for version in sorted(self._view.profiles) if version <= oldest)
        put = Put(keys.profile(record.version), msgspec.json.encode(record))
        return [put, *(Delete(keys.profile(version)) for version in old)]

    async def _create(self, record: ProfileRecord) -> ProfileRecord:
        """The record of that version, which is this one unless another was there first."""
        key, ops = keys.profile(record.version), self.written(record)

        async def attempt() -> ProfileRecord | None:
            # A version that exists is never written again: of two writers one loses.
            if await self._records.write([absent(key)], ops):
                return record
            found = await self._records.read(key, ProfileRecord)
            if found is None:
                return None
            await self._view.catch_up()
            return found[1]

        return await self._records.settle(f"version {record.version} of the profile", attempt, seen=False)

    # ---- changes of the profile in force

    def _on_delta(self, delta: Delta) -> None:
        if not (delta.profile or delta.relisted):
            return
        record = self._view.profile
        if record.version != self._shown:
            self._shown = record.version
            self._telemetry.gauge("ares_profile_version", record.version)
            log.info("profile.in_force", version=record.version, by=record.by, note=record.note)


def _conflict(found: ProfileRecord, why: str) -> Refusal:
    by = f" by {found.by}" if found.by else ""
    message = f"version {found.version}{by} is in force and {why}; look at it and try again"
    return Refusal(code="profile-conflict", message=message)


def seen_by(record: ProfileRecord, who: Principal) -> ProfileRecord:
    """The profile as the caller may see it: without the shares of other tenants. An operator sees all of it."""
    if sees_all(who):
        return record
    mine = {path: share for path, share in record.profile.shares.items() if path.split("/")[0] == who.tenant}
    return replace(record, profile=replace(record.profile, shares=mine))
