"""Which addresses are this machine's own."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach what listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
