"""The commit-msg hook: what it lets through, what it refuses, and that git runs it where CONTRIBUTING.md puts it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

HOOK = ROOT / "scripts" / "commit-msg"
# The Python of the tests, and no settings of the user: they may put hooks into another folder.
ENVIRONMENT = {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
BODY = "\n\nSays what and why. Checked by its test.\n"


def refusal(tmp_path: Path, message: str) -> str:
    """What the hook says about a message; empty where it lets it through."""
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text(message, encoding="utf-8")
    done = subprocess.run([HOOK, file], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == int(bool(done.stderr))
    return done.stderr


@pytest.mark.parametrize(
    "message",
    [
        "x" * 72 + BODY,
        # Characters count, not bytes.
        "→" * 72 + BODY,
        "# a comment of the editor\n\nA subject" + BODY,
        "Merge branch 'main'\n",
        "fixup! " + "x" * 80 + "\n",
    ],
)
def test_lets_through(tmp_path: Path, message: str) -> None:
    assert refusal(tmp_path, message) == ""


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("x" * 73 + BODY, "73 characters"),
        ("A subject\n", "no body"),
        ("A subject\n\n# Please enter the message\n", "no body"),
        ("A subject\n# ------------------------ >8 ------------------------\n\ndiff --git\n", "no body"),
        ("A subject\nand it goes on\n\nhere\n", "second line"),
        ("# nothing but this\n", "empty"),
    ],
)
def test_refuses(tmp_path: Path, message: str, says: str) -> None:
    assert says in refusal(tmp_path, message)


def test_git_runs_it_once_it_is_installed(tmp_path: Path) -> None:
    """By the command of CONTRIBUTING.md, in a repository made here: the hooks of this clone stay as they are."""
    (install,) = (text for text in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if text.startswith("ln -s "))
    assert install in HOOK.read_text()

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)

    commit = ("git", "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "--allow-empty", "-m")
    assert run("git", "init", "--quiet", ".").returncode == 0
    (tmp_path / ".git" / "hooks").mkdir(exist_ok=True)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "commit-msg").symlink_to(HOOK)
    assert run("sh", "-ec", install).returncode == 0
    refused = run(*commit, "No body")
    assert refused.returncode != 0
    assert "no body" in refused.stderr
    assert run(*commit, "A subject", "-m", "And a body.").returncode == 0
