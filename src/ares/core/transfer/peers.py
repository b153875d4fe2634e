"""Parts of datasets that a node reads from another node's cache: what the control plane seals, and that node checks.

The seal is by a key of the node that is asked, for one range of one file of one tenant's version, and for a while."""

import hmac
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

# Long enough for clocks that are minutes apart.
PEER_URL_S: Final = 900
_TARGET_MAX: Final = 8192


class PeerAsk(NamedTuple):
    """`until`: seconds since 1970, by the control plane's clock."""

    tenant: str
    version: str
    path: str
    at: int
    size: int
    until: int


def _seal(key: str, ask: PeerAsk) -> str:
    said = "\0".join(("GET", *map(str, ask)))
    return hmac.digest(key.encode(), said.encode(), "sha256").hex()


def peer_target(key: str, ask: PeerAsk) -> str:
    """What stands behind the address in a URL."""
    query = {"path": ask.path, "at": ask.at, "size": ask.size, "until": ask.until, "seal": _seal(key, ask)}
    return f"/{quote(ask.tenant, safe='')}/{quote(ask.version, safe='')}?{urlencode(query)}"


def peer_ask(key: str, target: str, now: float) -> PeerAsk | None:
    """What is asked for; None when that was not sealed so by the control plane for this node, or is over."""
    place, _, query = target.partition("?")
    parts = place.split("/")
    if not key or len(target) > _TARGET_MAX or len(parts) != 3 or not target.isascii():
        return None
    try:
        said = dict(parse_qsl(query, strict_parsing=True, max_num_fields=5))
        ask = PeerAsk(parts[1], parts[2], said["path"], int(said["at"]), int(said["size"]), int(said["until"]))
    except (KeyError, ValueError):
        return None
    if not hmac.compare_digest(said.get("seal", "").encode(), _seal(key, ask).encode()) or ask.until < now:
        return None
    return ask
