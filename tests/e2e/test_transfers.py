"""Bulk bytes on real processes: at a tenant's rate, shown on their way; and through a disk that is full for a while."""

import hashlib
import json
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ares.model.job import JobSpec, Resources, RetryPolicy
from tests.platform import Platform, eventually

SIZE = 5_000_000
MAKES = f'head -c {SIZE} /dev/urandom > "$ARES_OUTPUT_DIR/big"'


def test_outputs_of_a_limited_tenant_wait_their_turn_and_are_shown(platform: Platform) -> None:
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    refused = platform.cli("quota", "set", "default", "transfer=0")
    assert refused.code == 1
    assert "transfer needs a hard limit of at least 0.01 MB/s" in refused.err
    assert platform.cli("quota", "set", "default", "transfer=1").code == 0
    job = client.submit(
        JobSpec(
            command=("sh", "-c", MAKES), resources=Resources(cpu_milli=500, memory_mib=64), retry=RetryPolicy(limit=0)
        )
    )

    def seen() -> list[dict[str, Any]]:
        shown = platform.cli("data", "top", "-o", "json")
        assert shown.code == 0, shown.err
        # The lease that follows the first demand is nearly the whole rate.
        return [row for row in json.loads(shown.out)["transfers"] if row["bytesPerS"] > 0]

    (row, *_) = eventually(seen, "the output on its way")
    assert (row["node"], row["tenant"], row["kind"]) == ("node-a", "default", "output")
    assert row["tenantBytesPerS"] == 1_000_000
    table = platform.cli("data", "top", "--once").out
    assert "OF TENANT" in table
    assert "1.0 MB/s" in table
    quota = {use.measure: use for use in client.quota().uses}
    assert quota["transfer"].limit == 1.0
    ended = client.wait(job, timeout=100)
    assert ended.state.phase == "SUCCEEDED", ended.state.reason
    assert [file.size for file in client.outputs(ended).files] == [SIZE]
    empty = platform.cli("data", "top", "--once")
    assert empty.code == 0


FILL_BYTES = 3_000_000
FILLS = f'head -c {FILL_BYTES} /dev/urandom > "$ARES_OUTPUT_DIR/big" && sha256sum < "$ARES_OUTPUT_DIR/big"'


@contextmanager
def small_disk(at: Path, mib: int) -> Generator[None]:
    at.mkdir(exist_ok=True)
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: a full disk needs a small tmpfs, and only root may mount one. Run this test as root.")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(at)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT TESTED: this machine refuses to mount a small tmpfs: {done.stderr}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


@pytest.mark.slow
def test_a_job_waits_for_a_full_disk_and_loses_nothing(platform: Platform) -> None:
    outputs = platform.directory / "outputs"
    with small_disk(outputs, 8):
        platform.server(env={"ARES_LIMITS__DISK_RESERVE_MIB": "1", "ARES_LIMITS__DISK_RESERVE_FILES": "0"})
        platform.agent("node-a")
        client = platform.client()
        filler = outputs / "filler"
        filler.write_bytes(bytes(6_500_000))
        job = client.submit(
            JobSpec(
                command=("sh", "-c", FILLS),
                resources=Resources(cpu_milli=500, memory_mib=64),
                retry=RetryPolicy(limit=0),
            )
        )

        def paused() -> bool:
            found = client.explain(job)
            return found.reason is not None and found.reason.code == "STORAGE_PAUSED"

        eventually(paused, "the job that waits for the disk", 60.0)
        assert [row.endpoint for row in client.transfers().breakers] == ["control-plane"]
        filler.unlink()
        ended = client.wait(job, timeout=100)
        assert ended.state.phase == "SUCCEEDED", ended.state.reason
        assert ended.state.attempt == 1
        digest = b"".join(client.logs(ended)).split()[0].decode()
        (file,) = client.outputs(ended).files
        assert (file.size, file.sha256) == (FILL_BYTES, digest)
        kept = [path for path in outputs.rglob(f"*{digest}*") if path.is_file()]
        assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in kept] == [digest]
