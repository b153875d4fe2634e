"""Lines of .gitignore and .aresignore, compared with what git itself says."""

import subprocess
from pathlib import Path

from ares.edge.client.project.scan import scan

LINES = r"""
# a comment
*.log
!keep.log
/build
data/
docs/*.txt
**/cache/**
deep/**/end
a?c.py
[xy].bin
[!z]q.bin
trailing@
\#hash
\!bang
 spaced
sub/only/
""".replace("trailing@", "trailing\\ ")
FILES = (
    "x.log", "keep.log", "sub/y.log", "sub/keep.log", "build/a", "sub/build/a", "data/a", "sub/data/b", "sub2/data",
    "docs/a.txt", "docs/b/c.txt", "docs/d.md", "cache/a", "q/cache/b/c", "deep/end", "deep/a/b/end", "abc.py", "ac.py",
    "x.bin", "z.bin", "zq.bin", "aq.bin", "trailing ", "#hash", "!bang", " spaced", "sub/only/x", "only/x", "plain",
    "nested/.gitignore", "nested/a.tmp", "nested/b/c.tmp", "nested/x.log",
)  # fmt: skip


def make(root: Path, names: tuple[str, ...] = FILES) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def shipped(root: Path) -> set[str]:
    return {entry.path for entry in scan(root).entries if entry.kind == "file"}


def test_the_same_files_are_left_out_as_git_leaves_out(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / ".gitignore").write_text(LINES)
    (tmp_path / "nested/.gitignore").write_text("*.tmp\n!x.log\n/b\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    listed = subprocess.run(
        ["git", "-c", "core.quotePath=false", "-c", "core.excludesFile=", "ls-files", "-z", "-o", "--exclude-standard"],
        cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip
    theirs = {name for name in listed.stdout.split("\0") if name}
    assert shipped(tmp_path) == theirs
    assert "nested/x.log" in theirs
    # Part of a repository: what is above the project counts too.
    assert shipped(tmp_path / "sub") == {name.removeprefix("sub/") for name in theirs if name.startswith("sub/")}


def test_aresignore_has_the_last_word(tmp_path: Path) -> None:
    make(tmp_path, ("model.bin", "notes.txt", "big.dat"))
    (tmp_path / ".gitignore").write_text("*.bin\n*.txt\n")
    (tmp_path / ".aresignore").write_text("!model.bin\nbig.dat\n")
    assert shipped(tmp_path) == {"model.bin", ".gitignore", ".aresignore"}


def test_some_are_never_shipped(tmp_path: Path) -> None:
    make(tmp_path, (".git/config", "a/.venv/x", "__pycache__/y.pyc", "b/node_modules/z", "kept.py"))
    (tmp_path / ".aresignore").write_text("!.git\n!__pycache__\n")
    assert shipped(tmp_path) == {"kept.py", ".aresignore"}
