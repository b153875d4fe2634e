"""Hosts that are addresses themselves, in every form that resolvers take for one."""

from ipaddress import IPv4Address, ip_address

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
