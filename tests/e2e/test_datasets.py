"""A dataset's way from a person's directory to jobs and back, on real processes that share no directory of theirs."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.documents import ROOT, blocks
from tests.platform import Platform, eventually

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
