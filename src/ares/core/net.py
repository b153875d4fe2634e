"""Which addresses a URL from outside may lead to. Names are judged by what they resolve to: a name may lie, and
numbers have many forms.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from ares.model.base import Record

# ---- Hosts that are addresses themselves, in every form that resolvers take for one.


_PARTS_MAX = 4


def literal(host: str) -> str | None:
    """The address a host's text stands for: 10.0.0.1, 127.1, 2130706433, 0x7f.1, 0177.0.0.1 or ::1. None for a name."""
    text = host.rstrip(".")
    try:
        return str(ip_address(text))
    except ValueError:
        numbers = [_number(part) for part in text.split(".")]
    if None in numbers or len(numbers) > _PARTS_MAX:
        return None
    *heads, last = (number or 0 for number in numbers)
    # The last part fills all bytes that the parts before it leave.
    room = _PARTS_MAX - len(heads)
    if any(head > 0xFF for head in heads) or last >= 1 << (8 * room):
        return None
    high = sum(head << (8 * (3 - place)) for place, head in enumerate(heads))
    return str(IPv4Address(high + last))


def _number(text: str) -> int | None:
    """As C reads it: 0x is hexadecimal, a leading 0 octal."""
    base = 16 if text[:2].lower() == "0x" else 8 if len(text) > 1 and text.startswith("0") else 10
    try:
        return int(text, base) if text.isascii() and text.isalnum() else None
    except ValueError:
        return None


_NAT64: Final = IPv6Network("64:ff9b::/96")
# Public by their numbers, but within clouds they are the machine's own metadata and control; relays lead elsewhere.
_CLOUDS: Final = (IPv4Network("192.0.0.0/24"), IPv4Network("168.63.129.16/32"), IPv4Network("192.88.99.0/24"))
# All that is given out as addresses of the open internet. Everything beside it is some network's own business: local
# translators (64:ff9b:1::/48, ::ffff:0:0:0/96), site-local (fec0::/10), segment routing, and what is yet to be named.
_UNICAST: Final = IPv6Network("2000::/3")
# Within it, but of no machine: addresses for examples in documents.
_EXAMPLES: Final = IPv6Network("3fff::/20")
# An interface identifier that holds an IPv4 address, behind a router of the same site (ISATAP).
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})


class Target(Record, frozen=True):
    """A URL in its parts. `path` is what is asked for, with its query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The authority as a Host header has it."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"


_PORTS: Final = {"https": 443, "http": 80}


def target_of(url: str) -> Target | str:
    """The parts of a URL, or why it is none that may be called."""
    if any(ord(char) <= 0x20 or ord(char) >= 0x7F for char in url):
        return "it has spaces, control characters or characters beyond ASCII"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"it is no URL: {error}"
    if parts.scheme not in _PORTS:
        return f"its scheme is {parts.scheme or 'missing'!r}, not https or http"
    if "@" in parts.netloc or parts.hostname is None:
        return "it has a user or password in it" if "@" in parts.netloc else "it names no host"
    path = parts.path or "/"
    asked = f"{path}?{parts.query}" if parts.query else path
    return Target(scheme=parts.scheme, host=parts.hostname, port=port or _PORTS[parts.scheme], path=asked)


def refused(address: str) -> str | None:
    """Why a URL from outside may not lead to this address; None for an address of the open internet."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return f"{address} is no address"
    if _open(_inner(ip)):
        return None
    return f"{address} is not an address of the open internet"


def _open(ip: IPv4Address | IPv6Address) -> bool:
    if not ip.is_global or ip.is_multicast:
        return False
    if isinstance(ip, IPv4Address):
        return not any(ip in network for network in _CLOUDS)
    return ip in _UNICAST and ip not in _EXAMPLES


def _inner(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The address that an address with another one inside leads to."""
    if isinstance(ip, IPv4Address):
        return ip
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    # A compatible address is the number alone; nothing else of ::/96 is in use.
    compatible = IPv4Address(int(ip)) if 1 < int(ip) < 1 << 32 else None
    if int(ip) >> 32 & 0xFFFFFFFF in _ISATAP:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None) or compatible or ip


def allowed(host: str, address: str, allow: Iterable[str]) -> bool:
    """Whether the operator named this host, or a network that has the address."""
    ip = _inner(ip_address(address.partition("%")[0]))
    for entry in allow:
        try:
            network = ip_network(entry, strict=False)
        except ValueError:
            if entry.lower() == host.lower():
                return True
            continue
        if ip.version == network.version and ip in network:
            return True
    return False


def judged(host: str, addresses: Sequence[str], allow: Sequence[str]) -> Sequence[str]:
    """The addresses, all of which may be connected to. Raises ValueError when any is refused: one good answer does
    not clear the others."""
    if not addresses:
        raise ValueError(f"{host} has no address")
    for address in addresses:
        why = refused(address)
        if why is not None and not allowed(host, address, allow):
            raise ValueError(f"{host}: {why}")
    return addresses


# ---- Addresses of this machine itself.


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach what listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
