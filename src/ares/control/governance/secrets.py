"""A tenant's secrets: written, listed by name, deleted, and revealed only to attempts that declare them."""

import asyncio
import hmac
from collections.abc import Sequence

import msgspec
import structlog

from ares.api.secrets import KeyRotation, SecretView
from ares.control.governance.channels import Sealing, keys_used
from ares.control.state.records import Records, same, unchanged
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.access.table import reaches
from ares.core.admit.secrets import env_size
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.alert import ChannelRecord
from ares.model.job import ENV_BYTES_MAX, JobSpec
from ares.model.link import AttemptRef
from ares.model.secret import (
    SECRET_BYTES_MAX,
    SECRETS_BYTES_MAX,
    SECRETS_PER_TENANT_MAX,
    SECRETS_TENANT_BYTES_MAX,
    Secret,
    SecretGiven,
    SecretRecord,
    SecretRef,
)
from ares.ports.clock import Clock
from ares.ports.secrets import Sealed, Tampered, Vault, VaultError
from ares.ports.store import KV, Put, Store

log = structlog.get_logger()

# After so long a rotation is answered, and goes on when it is asked for again.
_ROTATION_S = 10.0
_REWRAPPED_AT_ONCE = 32
_NO_VAULT = "this server keeps no secrets: it has no key file"


class Secrets:
    def __init__(self, store: Store, view: View, clock: Clock, vault: Vault | None, installation: bytes = b"") -> None:
        """`installation` is the installation's own secret, the same on every replica."""
        self._installation = installation
        self._store = store
        self._records = Records(store, view)
        self._view = view
        self._clock = clock
        self._vault = vault
        self._sealing = Sealing(vault)
        self._warned: set[str] = set()
        view.subscribe(self._on_delta)

    def meeting_key(self, ref: AttemptRef) -> str:
        """By which the ranks of an attempt know each other. No other attempt has it, and it is not kept."""
        said = f"ranks {ref.tenant}/{ref.job}/{ref.fence}"
        return hmac.new(self._installation, said.encode(), "sha256").hexdigest()

    def peer_key(self, node: str, incarnation: int) -> str:
        """By which requests of other nodes to this one are sealed."""
        return hmac.new(self._installation, f"peer {node}/{incarnation}".encode(), "sha256").hexdigest()

    # ---- reading

    async def list(self, who: Principal) -> tuple[SecretView, ...]:
        """By name; never a value."""
        await self._view.catch_up()
        return tuple(self._shown(record) for record in self._of(who.tenant))

    def _of(self, tenant: str) -> Sequence[SecretRecord]:
        found = (record for record in self._view.kept.secrets.values() if record.tenant == tenant)
        return sorted(found, key=lambda record: record.name)

    def _shown(self, record: SecretRecord) -> SecretView:
        return SecretView(
            name=record.name, version=record.version, size=record.size,
            created_at=record.created_at, created_by=record.created_by,
            updated_at=record.updated_at, updated_by=record.updated_by,
            key_id=record.key_id, readable=self._sealing.holds(record.key_id),
        )  # fmt: skip

    # ---- changing

    async def put(
        self, who: Principal, name: str, value: Secret, expected_version: int | None = None
    ) -> SecretView | Refusal:
        """Makes a secret, or gives one a new value. Version 0 expects that there is none."""
        if not 1 <= len(value) <= SECRET_BYTES_MAX:
            message = f"the value has {len(value):,} bytes; 1 to {SECRET_BYTES_MAX:,} are kept"
            return Refusal(code="secret-invalid", message=message, fix="keep large files elsewhere")
        key = keys.secret(who.tenant, name)

        async def attempt() -> SecretView | Refusal | None:
            await self._view.catch_up()
            kv = await self._store.get(key)
            old = None if kv is None else msgspec.json.decode(kv.value, type=SecretRecord)
            no = self._no_change(who, old, expected_version) or self._no_room(who.tenant, name, len(value))
            if (no := no or self._no_key()) is not None:
                return no
            try:
                record = self._sealed(who, name, value, old)
            except (VaultError, OSError) as error:
                return Refusal(code="secrets-key", message=str(error))
            if not await self._records.ensure([unchanged(key, kv)], [Put(key, msgspec.json.encode(record))]):
                return None
            log.info("secret.put", tenant=who.tenant, secret=name, version=record.version, by=who.subject)
            return self._shown(record)

        return await self._records.settle(f"the secret {name}", attempt)

    async def delete(self, who: Principal, name: str) -> Refusal | None:
        """Jobs that still wait for it will not start."""

        def allowed(kv: KV) -> Refusal | None:
            return self._no_change(who, msgspec.json.decode(kv.value, type=SecretRecord), None)

        missing = Refusal(code="not-found", message=f"there is no secret {name}")
        key = keys.secret(who.tenant, name)
        done = await self._records.delete(key, f"the secret {name}", missing, allowed=allowed)
        if isinstance(done, Refusal):
            return done
        version = msgspec.json.decode(done.value, type=SecretRecord).version
        log.info("secret.deleted", tenant=who.tenant, secret=name, version=version, by=who.subject)
        return None

    def _no_change(self, who: Principal, old: SecretRecord | None, expected: int | None) -> Refusal | None:
        if old is not None and not reaches(who, "secrets:admin", old.tenant, old.created_by, old.created_id):
            message = f"{old.name} was made by {old.created_by}, and your role changes only what you made"
            fix = "ask them, or an administrator of the tenant"
            return Refusal(code="forbidden", message=message, fix=fix, reason="role")
        version = 0 if old is None else old.version
        if expected not in (None, version):
            message = f"it was to be changed from version {expected} and is at {version}"
            return Refusal(code="secret-conflict", message=message, fix="look at it and try again")
        return None

    def _no_room(self, tenant: str, name: str, size: int) -> Refusal | None:
        others = [record.size for record in self._of(tenant) if record.name != name]
        if len(others) < SECRETS_PER_TENANT_MAX and sum(others) + size <= SECRETS_TENANT_BYTES_MAX:
            return None
        message = (
            f"the tenant has {len(others):,} other secrets of {sum(others):,} bytes; with {size:,} more there would be "
            f"over {SECRETS_PER_TENANT_MAX:,}, or over {SECRETS_TENANT_BYTES_MAX:,} bytes"
        )
        return Refusal(code="secrets-full", message=message, fix="delete some that nobody uses")

    def _no_key(self) -> Refusal | None:
        try:
            self._sealing.require_keys(self._view.kept)
        except VaultError as error:
            fix = "give every server of the store the same key file, named by secrets.key_file"
            return Refusal(code="secrets-key", message=str(error), fix=fix)
        return None

    def _sealed(self, who: Principal, name: str, value: Secret, old: SecretRecord | None) -> SecretRecord:
        assert self._vault is not None, "it was looked for"
        version = 1 if old is None else old.version + 1
        sealed, now = self._vault.seal(value, binding(who.tenant, name, version)), self._clock.wall()
        made = (now, who.subject, who.user_id) if old is None else (old.created_at, old.created_by, old.created_id)
        return SecretRecord(
            tenant=who.tenant, name=name, version=version, ciphertext=sealed.ciphertext, nonce=sealed.nonce,
            wrapped=sealed.wrapped, key_id=sealed.key_id, size=len(value),
            created_at=made[0], created_by=made[1], created_id=made[2], updated_at=now, updated_by=who.subject,
        )  # fmt: skip

    # ---- key rotation

    async def rotate_key(self, who: Principal) -> KeyRotation | Refusal:
        """Makes a new key and seals everything with it; after an interruption it goes on where it was."""
        await self._view.catch_up()
        if (no := self._no_key()) is not None:
            return no
        assert self._vault is not None, "it was looked for"
        until = self._clock.monotonic() + _ROTATION_S
        try:
            newest = self._vault.newest()
            made = all(key_id == newest for key_id in keys_used(self._view.kept).values())
            newest = self._vault.renew() if made else newest
            waiting = [key for key, key_id in keys_used(self._view.kept).items() if key_id != newest]
            done = 0
            for at in range(0, len(waiting), _REWRAPPED_AT_ONCE):
                some = waiting[at : at + _REWRAPPED_AT_ONCE]
                done += sum(await asyncio.gather(*(self._rewrap(key, newest) for key in some)))
                if self._clock.monotonic() >= until:
                    break
        except (VaultError, OSError) as error:
            return Refusal(code="secrets-key", message=str(error))
        await self._view.catch_up()
        left = sum(key_id != newest for key_id in keys_used(self._view.kept).values())
        log.info("secrets.key_rotated", key=newest, made=made, rewrapped=done, left=left, by=who.subject)
        return KeyRotation(key_id=newest, made=made, rewrapped=done, left=left)

    async def _rewrap(self, key: str, newest: str) -> bool:
        """False when it changed meanwhile: that write used the new key, or the next round rewraps it."""
        kv = await self._store.get(key)
        if kv is None:
            return False
        try:
            again = self._again(kv, newest)
        except Tampered:
            # This secret cannot be decrypted any more. The others are rewrapped all the same.
            log.error("secrets.damaged", key=key, fix="set it again")
            return False
        if again is None:
            return False
        return await self._records.write([same(kv)], [Put(key, again)], seen=False)

    def _again(self, kv: KV, newest: str) -> bytes | None:
        """The record under the newest key; None when it is already, or has nothing sealed in it."""
        assert self._vault is not None, "it was looked for"
        if kv.key.startswith(keys.CHANNELS):
            channel = msgspec.json.decode(kv.value, type=ChannelRecord)
            fits = channel.sealed is None or channel.sealed.key_id == newest
            return None if fits else msgspec.json.encode(self._sealing.rewrap(channel))
        record = msgspec.json.decode(kv.value, type=SecretRecord)
        if record.key_id == newest:
            return None
        sealed = self._vault.rewrap(_sealed_of(record), binding(record.tenant, record.name, record.version))
        return msgspec.json.encode(msgspec.structs.replace(record, wrapped=sealed.wrapped, key_id=sealed.key_id))

    # ---- secrets of an attempt

    def reveal_for(self, tenant: str, spec: JobSpec) -> tuple[SecretGiven, ...] | str:
        """What an attempt that is about to start is given, as it is now; or why it cannot start."""
        given = list[SecretGiven]()
        for ref in spec.secrets:
            found = self._reveal(tenant, ref)
            if isinstance(found, str):
                return found
            given.append(found)
        if (size := sum(len(secret.value) for secret in given)) > SECRETS_BYTES_MAX:
            return f"its secrets have {size:,} bytes together, at most {SECRETS_BYTES_MAX:,} are given to a job"
        in_env = {secret.name: len(secret.value) for secret in given if secret.env is not None}
        if (size := env_size(spec, in_env)) > ENV_BYTES_MAX:
            return f"with its secrets the environment takes {size:,} bytes, at most {ENV_BYTES_MAX:,} are allowed"
        return tuple(given)

    def _reveal(self, tenant: str, ref: SecretRef) -> SecretGiven | str:
        record = self._view.kept.secrets.get(f"{tenant}/{ref.name}")
        if record is None:
            return f"the secret {ref.name} does not exist any more; make it again with `ares secret set {ref.name}`"
        if self._vault is None:
            return f"the secret {ref.name} cannot be read: {_NO_VAULT}"
        try:
            value = self._vault.open(_sealed_of(record), binding(tenant, record.name, record.version))
        except (VaultError, OSError) as error:
            return f"the secret {ref.name} cannot be read: {error}"
        if ref.env is not None and b"\0" in value.reveal():
            return f"the secret {ref.name} has a NUL byte and cannot be an environment variable; give it as a file"
        return SecretGiven(
            name=ref.name, version=record.version, value=value, env=ref.env, file=ref.file, registry=ref.registry
        )

    # ---- secrets that this server cannot read

    def _on_delta(self, delta: Delta) -> None:
        if not (delta.relisted or not delta.kept.isdisjoint((keys.SECRETS, keys.CHANNELS))):
            return
        named = set(keys_used(self._view.kept).values()) - self._warned
        for key_id in sorted(key_id for key_id in named if not self._sealing.holds(key_id)):
            self._warned.add(key_id)
            fix = "give this server the key file that the others have, named by secrets.key_file"
            log.error("secrets.key_missing", key=key_id, effect="jobs that need such secrets do not start", fix=fix)


def binding(tenant: str, name: str, version: int) -> bytes:
    """What a value is sealed for: put under another name, tenant or version, it does not open."""
    return f"{tenant}/{name}/{version}".encode()


def _sealed_of(record: SecretRecord) -> Sealed:
    return Sealed(record.ciphertext, record.nonce, record.wrapped, record.key_id)
