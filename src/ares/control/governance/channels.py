"""Channels: where alerts of a tenant, or of the platform, are sent. Their addresses and keys are sealed."""

from typing import Any
from urllib.parse import urlsplit

import msgspec
import structlog
from msgspec.structs import replace

from ares.api.alerts import ChannelView
from ares.control.state.records import Records, unchanged
from ares.control.state.tables import Tables
from ares.control.state.view import View
from ares.core import keys
from ares.core.access.table import WIDE, scope_of
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.alert import AlertKind, ChannelKind, ChannelRecord, Notice, Severity
from ares.model.base import Record
from ares.model.secret import SealedText, Secret
from ares.ports.clock import Clock, Rng
from ares.ports.notify import NotDelivered, Notifier
from ares.ports.secrets import Sealed, Vault, VaultError
from ares.ports.store import KV, Put, Store

# ---- seals


_NO_VAULT = "this server seals nothing: it has no key file"


class Sealing:
    """Of webhooks: their URL, whose path is often a password, and the secret that signs."""

    def __init__(self, vault: Vault | None) -> None:
        self._vault = vault

    def holds(self, key_id: str) -> bool:
        try:
            return self._vault is not None and self._vault.holds(key_id)
        except (VaultError, OSError):
            return False

    def require_keys(self, kept: Tables) -> None:
        """Raises VaultError unless all that is kept can be read here: one that cannot read what is there must not write
        either, or servers would keep secrets from each other."""
        if self._vault is None:
            raise VaultError(_NO_VAULT)
        foreign = {key_id for key_id in set(keys_used(kept).values()) if not self.holds(key_id)}
        if foreign:
            raise VaultError(f"some are sealed with the key {min(foreign)}, which this server does not have")

    def seal(self, channel: ChannelRecord) -> ChannelRecord:
        """As it is kept. Raises VaultError."""
        if channel.kind != "webhook":
            return channel
        if self._vault is None:
            raise VaultError(_NO_VAULT)
        hidden = Secret(msgspec.json.encode((channel.url, channel.secret)))
        sealed = _text(self._vault.seal(hidden, _binding(channel)))
        return replace(channel, url="", secret="", where=host_of(channel.url), sealed=sealed)

    def open(self, channel: ChannelRecord) -> ChannelRecord:
        """As it is used. Raises VaultError."""
        if channel.sealed is None:
            return channel
        if self._vault is None:
            raise VaultError(_NO_VAULT)
        plain = self._vault.open(_sealed(channel.sealed), _binding(channel))
        url, secret = msgspec.json.decode(plain.reveal(), type=tuple[str, str])
        return replace(channel, url=url, secret=secret, sealed=None)

    async def send(self, notifier: Notifier, channel: ChannelRecord, notice: Notice) -> None:
        """By a channel as it is kept. Raises NotDelivered."""
        try:
            opened = self.open(channel)
        except (VaultError, OSError) as error:
            raise NotDelivered(f"the channel cannot be read: {error}") from None
        await notifier.send(opened, notice)

    def rewrap(self, channel: ChannelRecord) -> ChannelRecord:
        """Under the newest key. Raises VaultError."""
        assert self._vault is not None, "who rotates has keys"
        assert channel.sealed is not None, "only what is sealed is sealed again"
        return replace(channel, sealed=_text(self._vault.rewrap(_sealed(channel.sealed), _binding(channel))))


def keys_used(kept: Tables) -> dict[str, str]:
    """Of everything that is sealed, by its key in the store: which key it is sealed with."""
    used = {keys.SECRETS + name: record.key_id for name, record in kept.secrets.items()}
    sealed = {name: channel.sealed for name, channel in kept.channels.items()}
    return used | {keys.CHANNELS + name: secret.key_id for name, secret in sealed.items() if secret is not None}


def host_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/..."


def _binding(channel: ChannelRecord) -> bytes:
    """Begins with a slash, as that of no secret does."""
    return keys.channel(channel.tenant, channel.name).encode()


def _sealed(text: SealedText) -> Sealed:
    return Sealed(text.ciphertext, text.nonce, text.wrapped, text.key_id)


def _text(sealed: Sealed) -> SealedText:
    return SealedText(ciphertext=sealed.ciphertext, nonce=sealed.nonce, wrapped=sealed.wrapped, key_id=sealed.key_id)


# ---- channels


log = structlog.get_logger()

# Of one tenant, or of the platform.
CHANNELS_MAX = 20
_SECRET_BYTES = 24


class ChannelWish(Record, frozen=True):
    """A channel as it is asked for."""

    name: str
    kind: ChannelKind
    url: str = ""
    # Signs webhooks. Empty: drawn anew, or the one there is.
    secret: str = ""
    to: tuple[str, ...] = ()
    severity: Severity = "info"
    kinds: tuple[AlertKind, ...] = ()
    all_tenants: bool = False
    enabled: bool = True

    def __repr__(self) -> str:
        return f"ChannelWish({self.name!r})"


class Channels:
    """Channels for alerts. `platform`: for alerts of the platform; only operators have such channels."""

    def __init__(
        self, store: Store, view: View, clock: Clock, rng: Rng, notifier: Notifier | None, sealing: Sealing
    ) -> None:
        self._store = store
        self._records = Records(store, view)
        self._view = view
        self._clock = clock
        self._rng = rng
        self._notifier = notifier
        self._sealing = sealing

    async def listed(self, who: Principal, *, platform: bool) -> tuple[ChannelView, ...] | Refusal:
        if (no := _refused(who, platform)) is not None:
            return no
        await self._view.catch_up()
        prefix = keys.scoped(_whose(who, platform), "")
        known = self._view.kept.channels
        return tuple(view_of(known[name]) for name in sorted(known) if name.startswith(prefix))

    async def save(self, who: Principal, wish: ChannelWish, *, platform: bool) -> tuple[ChannelView, str] | Refusal:
        """Made, or changed. With the secret that signs, if it is a new one: it is shown this once."""
        if (no := _refused(who, platform) or _wrong(wish)) is not None:
            return no
        tenant = _whose(who, platform)
        key = keys.channel(tenant, wish.name)
        drawn = wish.secret or self._rng.token(_SECRET_BYTES).hex()

        async def attempt() -> tuple[ChannelView, str] | Refusal | None:
            kv = await self._store.get(key)
            known = None if kv is None else self._opened(kv)
            if isinstance(known, Refusal):
                return known
            if known is None and (no := await self._too_many(tenant)) is not None:
                return no
            fields: dict[str, Any] = {name: getattr(wish, name) for name in ChannelWish.__struct_fields__}
            fields |= {"secret": wish.secret or (known.secret if known else "") or drawn, "tenant": tenant}
            record = ChannelRecord(
                **fields,
                created_at=known.created_at if known else self._clock.wall(),
                created_by=known.created_by if known else who.author,
            )
            if record.kind != "webhook":
                record = replace(record, secret="")
            why = None if self._notifier is None else self._notifier.unusable(record)
            if why is not None:
                return Refusal(code="channel-invalid", message=why)
            sealed = self._sealed(record)
            if isinstance(sealed, Refusal):
                return sealed
            if not await self._records.ensure([unchanged(key, kv)], [Put(key, sealed)]):
                return None
            log.info("channel.saved", name=wish.name, tenant=tenant, kind=wish.kind, by=who.author)
            is_new = known is None or known.secret != record.secret
            return view_of(record), record.secret if is_new else ""

        return await self._records.settle(f"channel {wish.name}", attempt)

    def _opened(self, kv: KV) -> ChannelRecord | Refusal:
        try:
            return self._sealing.open(msgspec.json.decode(kv.value, type=ChannelRecord))
        except (VaultError, OSError) as error:
            return Refusal(code="secrets-key", message=str(error))

    def _sealed(self, record: ChannelRecord) -> bytes | Refusal:
        """As it is kept."""
        try:
            self._sealing.require_keys(self._view.kept)
            return msgspec.json.encode(self._sealing.seal(record))
        except (VaultError, OSError) as error:
            return Refusal(code="secrets-key", message=str(error))

    async def delete(self, who: Principal, name: str, *, platform: bool) -> Refusal | None:
        if (no := _refused(who, platform)) is not None:
            return no
        done = await self._records.delete(keys.channel(_whose(who, platform), name), f"channel {name}", _none(name))
        if isinstance(done, Refusal):
            return done
        log.info("channel.deleted", name=name, by=who.author)
        return None

    async def test(self, who: Principal, name: str, *, platform: bool) -> str | Refusal | None:
        """Sends a notice that says it is a test; what went wrong, or None when it arrived."""
        if (no := _refused(who, platform)) is not None:
            return no
        await self._view.catch_up()
        channel = self._view.kept.channels.get(keys.scoped(_whose(who, platform), name))
        if channel is None or self._notifier is None:
            return _none(name) if channel is None else "this server sends nothing"
        now = self._clock.wall()
        notice = Notice(
            id=f"test-{self._rng.token(8).hex()}",
            kind="test",
            severity="info",
            tenant=channel.tenant,
            subject=name,
            text=f"a test of channel {name}, asked for by {who.author}",
            at=now,
        )
        try:
            await self._sealing.send(self._notifier, channel, notice)
        except NotDelivered as error:
            return str(error)
        return None

    async def _too_many(self, tenant: str) -> Refusal | None:
        await self._view.catch_up()
        prefix = keys.scoped(tenant, "")
        there = sum(name.startswith(prefix) for name in self._view.kept.channels)
        if there < CHANNELS_MAX:
            return None
        message = f"there are {there} channels of {tenant or 'the platform'}, at most {CHANNELS_MAX} are allowed"
        return Refusal(code="channels-full", message=message, fix="delete some")


def view_of(record: ChannelRecord) -> ChannelView:
    where = ", ".join(record.to) if record.kind == "email" else record.where or host_of(record.url)
    return ChannelView(
        name=record.name, tenant=record.tenant, kind=record.kind, where=where, severity=record.severity,
        kinds=record.kinds, all_tenants=record.all_tenants, enabled=record.enabled, created_at=record.created_at,
        created_by=record.created_by,
    )  # fmt: skip


def _wrong(wish: ChannelWish) -> Refusal | None:
    needs, not_for = ("url", "to") if wish.kind == "webhook" else ("to", "url")
    if not getattr(wish, needs) or getattr(wish, not_for):
        message = f"a channel of kind {wish.kind} has {needs!r} and no {not_for!r}"
        return Refusal(code="channel-invalid", message=message)
    if wish.secret and len(wish.secret) < 16:
        return Refusal(code="channel-invalid", message="the secret has fewer than 16 characters")
    return None


def _whose(who: Principal, platform: bool) -> str:
    return "" if platform else who.tenant


def _refused(who: Principal, platform: bool) -> Refusal | None:
    if not platform or scope_of(who, "alerts:admin") in WIDE:
        return None
    message = f"the role {who.role!r} has nothing to do with the platform's alerts"
    return Refusal(code="forbidden", message=message, fix="look at those of your own tenant", reason="role")


def _none(name: str) -> Refusal:
    return Refusal(code="not-found", message=f"there is no channel {name!r}")
