"""Fenced blocks of documents as scripts that a test runs, and the marks in the documents that say how.

A mark is a comment of its own on a line ahead of a block:

  <!-- before: COMMAND -->        run ahead of the block; of a Python block, it is Python
  <!-- not run: REASON -->        the block is not run, and why
  <!-- run by: tests/... -->      that file reads the block from this page and runs it, with what it needs
  <!-- file: NAME -->             the block is kept as this file, which a later one runs
  <!-- exits 3 at line 2 -->      the second command ends with 3; without it every command ends with 0
  <!-- tested by: tests/... -->   ahead of the first block: that file runs the page

JOB and <id> stand for the job that was submitted last, ARRAY for the array it is a task of.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md")))
LANGUAGES = ("sh", "console", "python")
_MARK = re.compile(r"<!-- (before|not run|run by|file|tested by|exits): ?(.*?) -->|<!-- exits (\d+) at line (\d+) -->")
_PLACE = re.compile(r"<id>|\b(?:JOB|ARRAY)(?=_\d|\b)")


class Block(NamedTuple):
    """A fenced block and its marks."""

    page: Path
    line: int
    language: str
    text: str
    before: tuple[str, ...] = ()
    not_run: str = ""
    run_by: str = ""
    file: str = ""
    # Exit codes other than 0, by the number of the command.
    codes: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def commands(self) -> list[str]:
        """One for each line of a shell, lines that go on joined; of a console, those behind a dollar sign."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def runners_of(page: Path) -> list[str]:
    """The files that run the page, if it says so."""
    found = re.search(r"<!-- tested by: (.+) -->", page.read_text())
    return found[1].split(", ") if found else []


def blocks(page: Path) -> list[Block]:
    """Those of a language that is run, in their order."""
    found: list[Block] = []
    before: list[str] = []
    said: dict[str, str] = {}
    codes, begin, language, body = list[tuple[int, int]](), 0, None, list[str]()
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if language is None and (fence := re.fullmatch(r"```(\w*)", line)):
            begin, language, body = number, fence[1], []
        elif language is not None and line == "```":
            if language in LANGUAGES:
                marks = {name: said.get(name.replace("_", " "), "") for name in ("not_run", "run_by", "file")}
                text = "\n".join(body)
                found.append(Block(page, begin, language, text, tuple(before), codes=tuple(codes), **marks))
            before, said, codes, language = [], {}, [], None
        elif language is not None:
            body.append(line)
        elif mark := _MARK.fullmatch(line):
            before += [mark[2]] if mark[1] == "before" else []
            said |= {} if mark[3] or mark[1] == "before" else {mark[1]: mark[2]}
            codes += [(int(mark[4]), int(mark[3]))] if mark[3] else []
    return found


def placed(command: str, latest: Callable[[], str]) -> str:
    """With the id of the latest job where a reader puts one."""
    if not _PLACE.search(command):
        return command
    job = latest()
    return _PLACE.sub(lambda place: job.partition("_")[0] if place[0] == "ARRAY" else job, command)
