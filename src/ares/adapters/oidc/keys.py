"""A provider's public keys: fetched from the configured address only, and kept while it is away."""

import asyncio
import hashlib
import warnings
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
import structlog
from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey

from ares.model.access import Provider
from ares.ports.clock import Clock
from ares.ports.provider import Checked

log = structlog.get_logger()

# An unknown key is looked for at most this often: tokens with invented key names must not flood the provider.
FLOOR_S = 10.0
# Keys are fetched again after this long, so that a withdrawn key is not trusted for ever.
FRESH_S = 300.0
_TIMEOUT_S = 5.0
_BYTES_MAX = 1 << 20
_KEYS_MAX = 100
_GOOD_MAX = 10_000
# No proxy from the environment for an address of this machine.
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# Asymmetric algorithms only: no key of this table is a shared secret.
_KINDS: dict[str, type[RSAKey | ECKey | OKPKey]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}

PublicKey = RSAKey | ECKey | OKPKey


class JwksError(Exception):
    """A provider's keys could not be fetched."""


@dataclass(slots=True)
class _KeyCache:
    keys: dict[str, PublicKey] = field(default_factory=dict[str, PublicKey])
    fetched_at: float | None = None
    tried_at: float | None = None
    fetching: asyncio.Task[None] | None = None
    # Digests of tokens with good signatures, which take a thousand times longer to check than a digest.
    good: set[bytes] = field(default_factory=set[bytes])


class JwksKeys:
    """Implements `ports.provider.ProviderKeys`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[str, _KeyCache] = {}

    async def verify(self, provider: Provider, text: str, algorithm: str, key_id: str) -> Checked:
        held = self._held.setdefault(provider.name, _KeyCache())
        key = _chosen(held, key_id)
        if key is None:
            await self._fetch(provider, held)
            key = _chosen(held, key_id)
        elif held.fetched_at is None or self._clock.monotonic() - held.fetched_at >= FRESH_S:
            # In the background: requests go on with the keys that are held.
            self._begin(provider, held)
        if key is None:
            return "kid" if held.keys else "keys"
        return "good" if _known(held, text, key, algorithm) else "signature"

    async def close(self) -> None:
        for held in self._held.values():
            if held.fetching is not None:
                held.fetching.cancel()
                await asyncio.gather(held.fetching, return_exceptions=True)

    async def _fetch(self, provider: Provider, held: _KeyCache) -> None:
        task = self._begin(provider, held)
        if task is not None:
            # A cancelled request must not cancel the fetch that other requests wait for.
            await asyncio.shield(task)

    def _begin(self, provider: Provider, held: _KeyCache) -> asyncio.Task[None] | None:
        """The fetch under way, or a new one unless there was one just now."""
        if held.fetching is not None and not held.fetching.done():
            return held.fetching
        now = self._clock.monotonic()
        if held.tried_at is not None and now - held.tried_at < FLOOR_S:
            return None
        held.tried_at = now
        held.fetching = asyncio.create_task(self._refresh(provider, held), name=f"keys of {provider.name}")
        return held.fetching

    async def _refresh(self, provider: Provider, held: _KeyCache) -> None:
        try:
            keys = await _get(provider.jwks_url)
        except JwksError as error:
            log.warning("provider.keys_unavailable", provider=provider.name, error=str(error), held=len(held.keys))
            return
        held.keys, held.fetched_at = keys, self._clock.monotonic()
        held.good.clear()
        log.info("provider.keys", provider=provider.name, keys=len(keys))


def _known(held: _KeyCache, text: str, key: PublicKey, algorithm: str) -> bool:
    """Whether the signature is good. A token that passed before with the same keys is not checked again."""
    name = hashlib.sha256(text.encode()).digest()
    if name in held.good:
        return True
    if not _signed(text, key, algorithm):
        return False
    if len(held.good) >= _GOOD_MAX:
        held.good.clear()
    held.good.add(name)
    return True


def _signed(text: str, key: PublicKey, algorithm: str) -> bool:
    with warnings.catch_warnings():
        # EdDSA has a new name, which few providers use yet.
        warnings.simplefilter("ignore", SecurityWarning)
        try:
            jws.deserialize_compact(text, key, algorithms=[algorithm])
        except (JoseError, ValueError, TypeError):
            return False
    return True


def _chosen(held: _KeyCache, key_id: str) -> PublicKey | None:
    if key_id:
        return held.keys.get(key_id)
    # A provider with a single key need not name it.
    return next(iter(held.keys.values())) if len(held.keys) == 1 else None


async def _get(url: str) -> dict[str, PublicKey]:
    # Redirects stay off: keys come from where the configuration says.
    local = urlsplit(url).hostname in _LOOPBACK
    options: dict[str, Any] = {"timeout": _TIMEOUT_S, "follow_redirects": False, "trust_env": not local}
    raw = bytearray()
    try:
        async with httpx2.AsyncClient(**options) as client, client.stream("GET", url) as response:
            if response.status_code != 200:
                raise JwksError(f"{url} answered {response.status_code}")
            async for piece in response.aiter_bytes():
                raw += piece
                if len(raw) > _BYTES_MAX:
                    raise JwksError(f"{url} sent more than {_BYTES_MAX:,} bytes")
        return _read(bytes(raw))
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise JwksError(f"{url}: {error or type(error).__name__}") from error
    except msgspec.DecodeError as error:
        raise JwksError(f"{url}: {error}") from error


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


def _read(raw: bytes) -> dict[str, PublicKey]:
    """The keys for signatures that can be read; others are of no use here, and no reason to have none."""
    found: dict[str, PublicKey] = {}
    for key in msgspec.json.decode(raw, type=_KeySet).keys[:_KEYS_MAX]:
        kind = _KINDS.get(str(key.get("kty")))
        if kind is None or key.get("use", "sig") != "sig":
            continue
        try:
            found[str(key.get("kid", ""))] = kind.import_key(key)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            log.warning("provider.key_unusable", kid=str(key.get("kid", ""))[:128], error=str(error)[:200])
    return found
