"""Which etcd servers are trusted with acknowledged writes."""

import re

from ares.ports.store import StoreVersionRefused

_OLDEST = (3, 4, 22)
_LOSES_WRITES_FROM = (3, 5, 0)
_LOSES_WRITES_TO = (3, 5, 5)


def check_version(version: str, endpoint: str) -> None:
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        raise StoreVersionRefused(f"etcd at {endpoint} reports version {version!r}: install 3.5.6 or newer")
    number = (int(found[1]), int(found[2]), int(found[3]))
    if number < _OLDEST:
        raise StoreVersionRefused(
            f"etcd at {endpoint} is version {version}, older than 3.4.22, and may lose acknowledged writes: "
            "install 3.4.22 or newer in 3.4, or 3.5.6 or newer"
        )
    if _LOSES_WRITES_FROM <= number <= _LOSES_WRITES_TO:
        raise StoreVersionRefused(
            f"etcd at {endpoint} is version {version}; 3.5.0 to 3.5.5 lose acknowledged writes in a crash: "
            "install 3.5.6 or newer"
        )
