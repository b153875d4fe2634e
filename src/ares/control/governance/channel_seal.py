"""What a channel is called by and signed with, sealed in the store as secrets are."""

from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from ares.control.state.tables import Tables
from ares.core import keys
from ares.model.alert import ChannelRecord, Notice
from ares.model.secret import SealedText, Secret
from ares.ports.notify import NotDelivered, Notifier
from ares.ports.secrets import Sealed, Vault, VaultError

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
