"""Files from a job's directory to a person's, on real processes; and through the death of the server on the way."""

import hashlib
import json
from pathlib import Path

from ares.model.job import JobSpec, Resources, RetryPolicy
from tests.platform import Platform, eventually

MAKES = """
cd "$ARES_OUTPUT_DIR" && mkdir 'sub dir' && echo "fence $ARES_FENCE" > 'sub dir/who' && : > empty
head -c 40000000 /dev/urandom > big && sha256sum big
"""


def spec(script: str, **changes: object) -> JobSpec:
    return JobSpec(
        command=("sh", "-c", script), resources=Resources(cpu_milli=500, memory_mib=64),
        retry=RetryPolicy(limit=0), **changes,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip


def kept(root: Path) -> set[str]:
    """All files but the name of the directory itself, by which it is told from an empty one in its place."""
    return {path.name for path in root.rglob("*") if path.is_file() and path != root / "+id"}


def test_files_come_out_as_the_job_wrote_them(shared: Platform, tmp_path: Path) -> None:
    client = shared.client()
    job = client.wait(client.submit(spec(MAKES)), timeout=100)
    assert job.state.phase == "SUCCEEDED", job.state.reason
    big = b"".join(client.logs(job)).split()[0].decode()
    listed = shared.cli("outputs", job.state.id[:12], "-o", "json")
    files = {one["path"]: one for one in json.loads(listed.out)["files"]}
    assert set(files) == {"big", "empty", "sub dir/who"}
    assert files["big"] == {"path": "big", "size": 40_000_000, "sha256": big}
    table = shared.cli("outputs", job.state.id).out
    assert big in table
    assert "40,000,000" in table
    assert f"3 files, 40,000,010 bytes: ares outputs {job.state.id}" in shared.cli("show", job.state.id).out
    saved = shared.cli("outputs", job.state.id, "--to", str(tmp_path / "all"))
    assert saved.code == 0
    assert "3 files, 40,000,010 bytes" in saved.err
    assert hashlib.sha256((tmp_path / "all" / "big").read_bytes()).hexdigest() == big
    assert (tmp_path / "all" / "sub dir" / "who").read_text() == f"fence {job.state.fence}\n"
    assert shared.cli("outputs", job.state.id, "--to", str(tmp_path / "one"), "sub dir").code == 0
    assert kept(tmp_path / "one") == {"who"}
    missing = shared.cli("outputs", job.state.id, "nope")
    assert missing.code == 1
    assert "has no output 'nope'" in missing.err


def test_what_is_no_file_fails_the_job_with_a_clear_word(shared: Platform) -> None:
    client = shared.client()
    for script, says in (
        ("ln -s /etc/passwd $ARES_OUTPUT_DIR/secret", "'secret' is a symbolic link"),
        ("mkfifo $ARES_OUTPUT_DIR/pipe", "'pipe' is a named pipe"),
    ):
        job = client.wait(client.submit(spec(script)), timeout=60)
        assert job.state.phase == "FAILED"
        assert says in job.state.reason
        assert client.outputs(job).files == ()
        assert shared.cli("outputs", job.state.id).out == ""


def test_a_server_that_dies_in_the_middle_loses_and_doubles_nothing(platform: Platform) -> None:
    """Killed while pieces come in, then again while they go out."""
    server = platform.server()
    platform.agent("node-a")
    client = platform.client()
    # Nobody may take it for lost while the server is away.
    job = client.submit(spec(MAKES, lease_s=300.0))
    outputs = platform.directory / "outputs"
    eventually(lambda: any(name.endswith(".part") for name in kept(outputs)), "the first piece of a file")
    server.kill()
    platform.server()
    ended = client.wait(job, timeout=100)
    assert ended.state.phase == "SUCCEEDED", ended.state.reason
    assert ended.state.attempt == 1
    big = b"".join(client.logs(ended)).split()[0].decode()
    listed = {one.path: one.sha256 for one in client.outputs(ended).files}
    assert listed["big"] == big
    # Of what is kept nothing is left over, and nothing is missing.
    eventually(lambda: kept(outputs) == set(listed.values()), "the removal of what was not committed")
    got = list[bytes]()
    for piece in client.output(ended, "big"):
        got.append(piece)
        if len(got) == 1:
            server.kill()
            platform.server()
    assert hashlib.sha256(b"".join(got)).hexdigest() == big
