"""All files of jobs in an object store: a real SeaweedFS behind real processes, which is lost for a while."""

import asyncio
import json
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ares.model.checkpoint import CheckpointPolicy
from ares.model.job import JobSpec, Resources, RetryPolicy
from tests.platform import Platform, eventually
from tests.seaweed import ACCESS_KEY, SECRET_KEY, SeaweedServer

TRAINS = """
import os, pathlib
from ares import job
at = job.restore()
step = int((at / "data").read_bytes()) if at else 0
print("begins at", step, flush=True)
pathlib.Path(os.environ["ARES_OUTPUT_DIR"], "model.bin").write_bytes(bytes(3 << 20) + str(step).encode())
if not at:
    job.checkpoint(b"7", step=7, wait=True)
    os.kill(os.getpid(), 9)
"""


def keys_of(server: SeaweedServer) -> list[str]:
    async def listed() -> list[str]:
        bucket = server.bucket("ares/")
        try:
            return [found.key async for found in bucket.listed("")]
        finally:
            await bucket.close()

    return asyncio.run(listed())


@pytest.mark.slow
def test_files_of_jobs_are_kept_in_an_object_store(tmp_path: Path) -> None:
    server = SeaweedServer(tmp_path / "seaweed").start()
    with Platform(tmp_path / "platform", lend=False, warm=True) as platform, closing(server):
        keys = tmp_path / "s3.keys"
        keys.write_text(f"{ACCESS_KEY}\n{SECRET_KEY}\n")
        env = {
            "ARES_OBJECTS__ENDPOINT": server.origin, "ARES_OBJECTS__BUCKET": "ares", "ARES_OBJECTS__PREFIX": "ares",
            "ARES_OBJECTS__CREDENTIALS_FILE": str(keys),
        }  # fmt: skip
        platform.server(env=env)
        platform.agent("node-a")
        client = platform.client()
        data = tmp_path / "data"
        data.mkdir()
        (data / "labels.txt").write_text("cat\ndog\n")
        assert platform.cli("data", "put", str(data), "films").code == 0
        read = platform.cli("submit", "--follow", "--workdir", str(data), "--input", "d=ares://datasets/films", "--",
                            "sh", "-c", 'cat labels.txt "$ARES_INPUT_D/labels.txt"')  # fmt: skip
        assert (read.code, read.out) == (0, "cat\ndog\ncat\ndog\n"), read

        job = client.submit(
            JobSpec(
                command=(sys.executable, "-c", TRAINS), retry=RetryPolicy(base_s=0.1), checkpoint=CheckpointPolicy(),
                resources=Resources(cpu_milli=500, memory_mib=64),
            )
        )  # fmt: skip
        ended = client.wait(job, timeout=120)
        assert ended.state.phase == "SUCCEEDED"
        assert b"".join(client.logs(job, attempt=2)).startswith(b"begins at 7\n")
        assert platform.cli("outputs", job.id, "--to", "got", at=tmp_path).code == 0
        assert (tmp_path / "got" / "model.bin").read_bytes() == bytes(3 << 20) + b"7"
        # The node read its files from the store by itself: none passed the server.
        passed = ("ares_staged_bytes_total", "ares_restored_bytes_total")
        assert [line for line in platform.metrics() if line.startswith(passed) and not line.endswith(" 0.0")] == []
        kept = keys_of(server)
        assert any(f"/jobs/{job.id}/" in key for key in kept), kept
        # Of the server's disk nothing is left but empty folders.
        assert not [path for path in (platform.directory / "server-0" / "spool").rglob("*") if path.is_file()]
        assert not (platform.directory / "outputs" / "default").exists()

        well = json.loads(platform.cli("doctor", "-o", "json").out)["findings"]
        (found,) = (finding for finding in well if finding["check"] == "objects")
        assert (found["status"], "compares digests" in found["message"]) == ("ok", True), found
        assert platform.cli("verify", env={**env, "ARES_HOME": str(platform.directory / "server-0")}).code == 0

        server.stop()
        late = client.submit(
            JobSpec(
                command=("sh", "-c", 'echo late > "$ARES_OUTPUT_DIR/late.txt"'),
                resources=Resources(cpu_milli=500, memory_mib=64),
            )
        )

        def lost() -> bool:
            said = json.loads(platform.cli("doctor", "-o", "json").out)["findings"]
            return any(finding["check"] == "objects" and finding["status"] == "failed" for finding in said)

        eventually(lost, "that the store is away is said")
        server.start()
        assert client.wait(late, timeout=180).state.phase == "SUCCEEDED"
