"""A project's way from a person's directory to the job, on real processes that share no directory but their own."""

import os
import re
import stat
import sys
from pathlib import Path

import pytest

from ares.edge.client.errors import ApiError
from tests.platform import Platform

README = Path(__file__).parents[2] / "README.md"
TRAIN = """
import json, os, sys
import helper
print("epoch", helper.EPOCH, os.getcwd() == os.environ["ARES_WORKDIR"])
open("written.txt", "w").write("x")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "my project"
    (root / "data" / "deep").mkdir(parents=True)
    (root / "train.py").write_text(TRAIN)
    (root / "helper.py").write_text("EPOCH = 1\n")
    (root / "data" / "big.bin").write_bytes(os.urandom(16 << 20))
    (root / "run.sh").write_text("#!/bin/sh\nsha256sum data/big.bin; readlink latest; ls -A\n")
    (root / "run.sh").chmod(0o755)
    (root / "latest").symlink_to("data/deep")
    (root / ".gitignore").write_text("*.tmp\n")
    (root / "junk.tmp").write_text("x")
    return root


def test_a_program_that_lies_here_runs_there(shared: Platform, project: Path) -> None:
    first = shared.cli("submit", "--follow", "--memory", "64M", "--", "python3", "train.py", at=project)
    assert (first.code, first.out) == (0, "epoch 1 True\n"), first
    assert re.search(r"shipped .*my project: 5 files, 16\.0 MiB, 16\.0 MiB new", first.err), first.err
    # Nothing of an attempt comes back, and what did not change is not sent again.
    again = shared.cli("submit", "--follow", "--memory", "64M", "--", "./run.sh", at=project)
    assert again.code == 0, again
    assert "5 files, 16.0 MiB, nothing new" in again.err
    assert "data/deep" in again.out
    assert set(again.out.splitlines()[2:]) >= {"train.py", "helper.py", "run.sh", "latest", "data", ".gitignore"}
    assert "junk.tmp" not in again.out
    assert "written.txt" not in again.out
    assert not (project / "written.txt").exists()
    (project / "helper.py").write_text("EPOCH = 2\n")
    changed = shared.cli("submit", "--follow", "--memory", "64M", "--", "python3", "train.py", at=project)
    assert changed.out == "epoch 2 True\n"
    assert "14 B new" in changed.err


def test_the_readmes_own_lines_work(
    shared: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`command=["python3", "train.py"]` with a train.py beside it is all it takes."""
    (block,) = [one for one in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL) if "train.py" in one]
    (tmp_path / "train.py").write_text("from ares import job\njob.result({'loss': 0.1})\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARES_SHIP", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    monkeypatch.setenv("ARES_URL", shared.servers[0].url)
    monkeypatch.setenv("ARES_TOKEN", shared.admin_token)
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out == "SUCCEEDED\n"


def test_modes_are_kept_and_the_job_may_change_everything(shared: Platform, project: Path) -> None:
    script = "stat -c %a run.sh train.py && echo more >> train.py && rm -r data && mkdir data && touch data/new"
    ran = shared.cli("submit", "--follow", "--", "sh", "-c", script, at=project)
    assert ran.code == 0, ran
    assert ran.out.split() == [
        oct(stat.S_IMODE((project / name).stat().st_mode))[2:] for name in ("run.sh", "train.py")
    ]
    assert (project / "data" / "big.bin").exists()


def test_a_job_file_and_flags_say_which_directory(shared: Platform, project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "job.yaml").write_text("command: [ls]\nworkdir: my project/data\nresources: {memoryMib: 64}\n")
    named = shared.cli("submit", "--follow", "-f", "job.yaml", at=tmp_path)
    assert named.out.split() == ["big.bin", "deep"], named
    over = shared.cli("submit", "--follow", "-f", "job.yaml", "--workdir", "elsewhere", at=tmp_path)
    assert over.out == "", over
    none = shared.cli("submit", "--follow", "--workdir", "none", "--", "ls", "-A", at=project)
    assert (none.out, "shipped" in none.err) == ("", False)
    chdir = shared.cli("submit", "--follow", "--chdir", "/etc", "--", "pwd", at=project)
    assert (chdir.out, "shipped" in chdir.err) == ("/etc\n", False)
    wrong = shared.cli("submit", "--workdir", "nope", "--", "true", at=project)
    assert wrong.code != 0
    assert "is no directory here" in wrong.err


def test_too_much_is_refused_without_a_person_to_ask(shared: Platform, project: Path) -> None:
    with (project / "dataset.bin").open("wb") as file:
        file.truncate(300 << 20)
    refused = shared.cli("submit", "--", "true", at=project)
    assert refused.code != 0
    assert "dataset.bin (300.0 MiB)" in refused.err
    assert ".aresignore" in refused.err
    (project / ".aresignore").write_text("dataset.bin\n")
    assert shared.cli("submit", "--wait", "--", "true", at=project).code == 0


def test_a_directory_of_the_system_is_not_shipped(shared: Platform) -> None:
    ran = shared.cli("submit", "--follow", "--", "ls", "-A", at=Path("/"))
    assert (ran.code, ran.out) == (0, ""), ran
    assert "nothing is shipped with the job" in ran.err
    assert "--workdir" in ran.err


def test_another_tenants_digest_says_nothing(shared: Platform, project: Path) -> None:
    client = shared.client()
    mine = client.ship(project)
    client.create_tenant("other")
    other = shared.client(token=client.create_token(tenant="other", role="submitter", name="t").token)
    with pytest.raises(ApiError, match="the tenant has no project") as refused:
        other.submit(command=["true"], project=mine.sha256)
    assert refused.value.code == "project-unknown"


def test_staging_survives_the_death_of_the_server(platform: Platform, project: Path) -> None:
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    shipped = client.ship(project)
    platform.servers[0].kill()
    platform.server()
    job = client.submit(command=["sha256sum", "data/big.bin"], project=shipped.sha256, memory="64M")
    ended = client.wait(job, timeout=60)
    assert ended.state.phase == "SUCCEEDED", ended.state.reason
    # Another node fetches for itself.
    platform.agent("node-b", flags=["--set=node.labels.which=b"])
    second = client.submit(command=["ls", "train.py"], project=shipped.sha256, memory="64M", selector={"which": "b"})
    ended = client.wait(second, timeout=60)
    assert ended.state.phase == "SUCCEEDED", ended.state.reason
    assert b"".join(client.logs(second)) == b"train.py\n"


def test_files_that_were_lost_fail_the_job_with_a_clear_word(platform: Platform, project: Path) -> None:
    platform.server()
    client = platform.client()
    shipped = client.ship(project)
    job = client.submit(command=["true"], project=shipped.sha256, memory="64M", retries=0)
    verify = ("verify", f"--store={platform.store_url}", f"--set=outputs={platform.directory / 'outputs'}", "--outputs")
    assert platform.cli(*verify).code == 0
    for path in (platform.directory / "outputs").rglob("*"):
        if path.is_file() and path.stat().st_size > 1 << 20:
            path.unlink()
    found = platform.cli(*verify)
    assert (found.code, f"project {shipped.sha256[:12]} of job {job.id}: it cannot be read" in found.out) == (1, True)
    platform.agent("node-a")
    ended = client.wait(job, timeout=60)
    assert ended.state.phase == "FAILED"
    assert "it is not kept any more" in ended.state.reason


def test_any_python_imports_ares_job_and_prints_at_once(shared: Platform, tmp_path: Path) -> None:
    """-S leaves out every installed package: what is imported is what the node lends."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "extra.py").write_text("X = 1\n")
    script = (
        "import sys, extra; from ares import job; import ares.job;"
        "job.result({'x': extra.X, 'unbuffered': sys.stdout.write_through, 'id': job.id})"
    )
    ran = shared.cli(
        "submit", "--wait", "-o", "name", "--workdir", str(tmp_path / "mine"), "--env", "PYTHONPATH=.",
        "--", "/usr/bin/env", "python3", "-S", "-c", script,
    )  # fmt: skip
    assert ran.code == 0, ran
    job = ran.out.split()[0]
    result = shared.client().get(job).result
    assert result is not None
    assert result.value == {"x": 1, "unbuffered": True, "id": job}


def test_a_whole_installation_comes_before_the_lent_module(shared: Platform) -> None:
    script = "import ares; ares.Client; from ares import job; job.result(ares.__version__)"
    client = shared.client()
    ended = client.wait(client.submit(command=[sys.executable, "-c", script], workdir="none"), timeout=60)
    assert ended.state.phase == "SUCCEEDED", ended.state.reason
