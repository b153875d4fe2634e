"""A dataset's way from a person's directory to jobs and back, on real processes that share no directory of theirs."""

import hashlib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ares.model.job import DataInput, JobSpec, NodeTerm, Resources
from tests.documents import ROOT, blocks
from tests.platform import Platform, eventually
from tests.ports import free_ports

GUIDE = ROOT / "docs/guides/datasets.md"
COUNT = (
    'cat "$ARES_INPUT_DATA/latest"; wc -c < "$ARES_INPUTS_DIR/data/big.bin"; '
    'touch "$ARES_INPUT_DATA/new" 2>/dev/null; echo $?; touch "$ARES_INPUT_OWN/new"; '
    'echo more >> "$ARES_INPUT_OWN/deep/labels.txt"; wc -l < "$ARES_INPUT_OWN/latest"'
)


@pytest.fixture
def films(tmp_path: Path) -> Path:
    root = tmp_path / "films"
    (root / "deep").mkdir(parents=True)
    (root / "big.bin").write_bytes(os.urandom((16 << 20) + 5))
    (root / "deep" / "labels.txt").write_text("cat\ndog\n")
    (root / ".gitignore").write_text("*.bin\n")
    (root / "latest").symlink_to("deep/labels.txt")
    return root


def test_what_is_published_is_what_jobs_read(shared: Platform, films: Path, tmp_path: Path) -> None:
    first = shared.cli("data", "put", str(films), "films")
    assert first.code == 0, first
    assert first.out.startswith("published films: 3 files, 16.0 MiB, 16.0 MiB sent\n")
    ref = first.out.split()[-1]
    again = json.loads(shared.cli("data", "put", str(films), "films", "-o", "json").out)
    assert (again["sent"], again["ref"]) == (0, ref)

    ran = shared.cli(
        "submit", "--follow", "--workdir", "none", "--input", "data=ares://datasets/films",
        "--input", "own=ares://datasets/films:copy", "--", "sh", "-c", COUNT,
    )  # fmt: skip
    read, size, refused, lines = ran.out[: len("cat\ndog\n")], *ran.out.split()[2:]
    assert (ran.code, read, size, lines) == (0, "cat\ndog\n", str((16 << 20) + 5), "3"), ran
    assert refused != "0", "what the node keeps for all jobs was changed by one"

    # A change of eight bytes sends one part and makes another version; the older one stays what it was.
    before = (films / "big.bin").read_bytes()
    (films / "big.bin").write_bytes(b"changed!" + before[8:])
    assert "16.0 MiB, 8.0 MiB sent" in shared.cli("data", "put", str(films), "films").out
    digits = ref.partition("sha256:")[2][:8]
    assert shared.cli("data", "get", f"films@{digits}", "old", at=tmp_path).code == 0
    assert (tmp_path / "old" / "big.bin").read_bytes() == before
    assert (tmp_path / "old" / "latest").read_text() == "cat\ndog\n"
    newer = shared.cli("data", "get", "films", "old", at=tmp_path)
    assert "16.0 MiB, 16.0 MiB fetched" in newer.out or "8.0 MiB fetched" in newer.out, newer
    assert (tmp_path / "old" / "big.bin").read_bytes() == (films / "big.bin").read_bytes()


def test_what_is_removed_fails_jobs_in_words(shared: Platform, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    client = shared.client()
    sent = client.put_dataset(tmp_path / "notes.txt", "notes")
    job = client.submit(command=["cat"], inputs={"n": "ares://datasets/notes"}, held=True, workdir="none", retries=0)
    assert client.get(job).spec.inputs[0].from_ == sent.ref
    refused = shared.cli("data", "rm", "notes")
    assert refused.code != 0
    assert f"1 job of it have not ended: {job.id}" in refused.err
    gone = shared.cli("data", "rm", "--force", "notes")
    assert re.search(rf"removed notes: 1 version, 6 B; 1 jobs .*: {job.id}", gone.out), gone
    unknown = shared.cli("submit", "--workdir", "none", "--input", "n=ares://datasets/notes", "--", "true")
    assert unknown.code != 0
    assert "the tenant has no dataset notes" in unknown.err
    client.release(job)
    ended = eventually(lambda: (state := client.get(job).state).phase == "FAILED" and state, "it failed")
    assert ended.exit is not None
    assert (ended.exit.failure, "dataset notes@sha256:" in ended.exit.message) == ("staging", True), ended.exit
    assert "notes" not in {dataset.name for dataset in client.datasets()}


def test_a_job_goes_where_its_data_is(platform: Platform, tmp_path: Path) -> None:
    """The node that read a version of 64 MiB tells so, and counts as near for the next job that reads it."""
    platform.server()
    for node in ("node-a", "node-b"):
        platform.agent(node)
    client = platform.client()
    # Eight equal parts, of which one is sent.
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(64 << 20)
    client.put_dataset(tmp_path / "zeros", "zeros")
    # It would like to be on one node in any case: the other one never has the data.
    reads = JobSpec(
        command=("true",),
        inputs=(DataInput(name="z", from_="ares://datasets/zeros"),),
        affinity=(NodeTerm(key="node", op="in", values=("node-b",), required=False, weight=100),),
        resources=Resources(cpu_milli=100, memory_mib=64),
    )

    def placed() -> dict[str, float] | None:
        job = client.wait(client.submit(reads), timeout=60)
        assert (job.state.phase, job.state.placements[0].node) == ("SUCCEEDED", "node-b"), job.state.reason
        scores = {node.node: node.parts.get("locality", 0.0) for node in client.replay(job.state.id, {}).nodes}
        return scores if any(scores.values()) else None

    near = eventually(placed, "a job whose place is judged by its data")
    assert near["node-b"] == 0.0 > near["node-a"]


def test_a_node_reads_data_from_another_that_has_it(tmp_path: Path) -> None:
    """And from the server when that node is gone."""
    with Platform(tmp_path / "site", lend=False, warm=True) as platform:
        read_on = noise_reader(platform, tmp_path)
        eventually(lambda: read_on("node-a"), "node-a's word that it has the data", 60)
        staged = served(platform)
        assert staged >= 72 << 20
        read_on("node-b")
        # Not a byte of it came from the server.
        assert served(platform) == staged
        for node in ("node-a", "node-b"):
            platform.agents[node].kill()
        read_on("node-c")
        assert served(platform) >= 2 * 72 << 20


def noise_reader(platform: Platform, tmp_path: Path) -> Callable[[str], bool]:
    """Three nodes, a dataset, and what runs a job on one of them that reads it."""
    platform.server()
    ports = dict(zip(("node-a", "node-b", "node-c"), free_ports(3), strict=True))
    for node, port in ports.items():
        platform.agent(node, flags=[f"--set=node.transfer.peer_port={port}"])
    client = platform.client()
    (tmp_path / "noise").write_bytes(os.urandom(72 << 20))
    client.put_dataset(tmp_path / "noise", "noise")

    def read_on(node: str) -> bool:
        """Whether it was known, when the job was placed, which nodes have the data."""
        job = client.submit(
            JobSpec(
                command=("sh", "-c", 'cat "$ARES_INPUT_NOISE"/* | sha256sum'),
                inputs=(DataInput(name="noise", from_="ares://datasets/noise"),),
                affinity=(NodeTerm(key="node", op="in", values=(node,), required=False, weight=100),),
                resources=Resources(cpu_milli=100, memory_mib=64),
            )
        )
        ended, said = client.wait(job, timeout=100), b"".join(client.logs(job)).decode()
        assert (ended.state.phase, ended.state.placements[0].node) == ("SUCCEEDED", node), (ended.state.reason, said)
        assert said.split()[0] == hashlib.sha256((tmp_path / "noise").read_bytes()).hexdigest()
        return any(found.parts.get("locality", 0.0) for found in client.replay(job.id, {}).nodes)

    return read_on


def served(platform: Platform) -> int:
    """Bytes of projects and datasets that the server has sent to nodes."""
    found = [line for line in platform.metrics() if line.startswith("ares_staged_bytes_total")]
    return int(sum(float(line.split()[-1]) for line in found))


def test_guide_as_it_is_written(shared: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARES_URL", shared.servers[0].url)
    monkeypatch.setenv("ARES_TOKEN", shared.admin_token)
    said = ""
    (later,) = re.findall(r"```yaml\n(command: \[sh.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "later.yaml").write_text(later)
    for block in blocks(GUIDE):
        if block.language == "python" and block.text.startswith("# train.py"):
            (tmp_path / "train.py").write_text(block.text)
        elif block.language == "python":
            exec(compile(block.text, block.name, "exec"), {})
        else:
            for command in block.commands():
                if not command.startswith("ares "):
                    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
                    continue
                words = shlex.split(re.sub(r"\bJOB\b", lambda _: next(shared.client().list()).id, command), True)
                done = shared.cli(*words[1:], at=tmp_path)
                assert done.code == 0, (command, done)
                said += done.out
    assert "{'3': 2, '5': 1}" in said
    assert "nothing had to be fetched" in said
    assert "it waits for ares://datasets/features to be published" in said
    assert "\n2\n" in said
