"""Room for the files of jobs on a server's disks."""

import errno
from pathlib import Path

import pytest

from ares.adapters.objects.blobs import ObjectBlobs
from ares.app.config import load
from ares.app.files import files_of, rooms_of
from ares.model.base import AttemptRef, Fence


def ref(tenant: str) -> AttemptRef:
    return AttemptRef(job="0123456789abcdef", tenant=tenant, fence=Fence(epoch=1, counter=1))


async def test_a_tenant_fills_no_more_than_its_part_of_the_way_to_an_object_store(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("id\nsecret\n")
    settings = {
        "home": str(tmp_path / "home"),
        "objects.endpoint": "http://127.0.0.1:1",
        "objects.bucket": "b",
        "objects.credentials_file": str(keys),
        "limits.tenant_output_mib_max": "1",
        "limits.disk_reserve_mib": "0",
    }
    config = load(None, settings, {})
    blobs = files_of(config, rooms_of(config)).blobs
    assert isinstance(blobs, ObjectBlobs)
    spool = blobs._spool  # pyright: ignore[reportPrivateUsage]
    await spool.append(ref("acme"), "a" * 64, 0, bytes(1 << 20))
    with pytest.raises(OSError, match="tenant acme holds 1 MiB of 1 MiB") as full:
        await spool.append(ref("acme"), "b" * 64, 0, b"x")
    assert full.value.errno == errno.EDQUOT
    # Another tenant's files still pass, and what is refused for its digest takes no room.
    assert await spool.append(ref("umbrella"), "a" * 64, 0, bytes(1 << 20)) == 1 << 20
    assert await spool.seal(ref("acme"), "a" * 64, 1 << 20) is not None
    assert await spool.append(ref("acme"), "b" * 64, 0, b"x") == 1
