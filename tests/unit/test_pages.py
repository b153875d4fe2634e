"""Every `ares` command line that documents and help texts show is one that the program takes."""

import itertools
import re
import shlex

import click
import pytest

from ares.app.main import cli
from tests.documents import PAGES, ROOT, blocks, placed, runners_of
from tests.unit.edge.cli.test_start import commands

SHOWN = [
    (block.name, command)
    for page in (*PAGES, ROOT / "docs" / "cli.md")
    for block in blocks(page)
    if block.language != "python"
    for number, command in enumerate(block.commands(), start=1)
    # What is shown to be refused as a command line is run by tests/e2e/test_pages.py.
    if command.startswith("ares ") and dict(block.codes).get(number) != 2
]
HELP = [
    (" ".join(("ares", *path, "--help")), line.strip())
    for path, command in commands(cli)
    for line in (command.help or "").splitlines()
    if re.match(r"\s+ares \w", line)
]


@pytest.mark.parametrize(("where", "command"), [*SHOWN, *HELP], ids=lambda text: text)
def test_command_lines_are_taken(where: str, command: str) -> None:
    lexer = shlex.shlex(placed(command, lambda: "0" * 16), posix=True, punctuation_chars="|<>&;")
    lexer.whitespace_split = True
    # Up to where the shell goes on with something else.
    words = [*itertools.takewhile(lambda word: not set(word) <= set("|<>&;"), lexer)][1:]
    while words and words[0].startswith("--"):
        # Options of the program itself come first, each with a value.
        words = words[2:]
    found: click.Command = cli
    context = click.Context(cli, info_name="ares")
    while isinstance(found, click.Group) and words and not words[0].startswith("-"):
        below = found.get_command(context, words[0])
        assert below is not None, (where, words[0])
        found, words = below, words[1:]
    known = {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)} | {
        "-h",
        "--help",
    }
    ahead = words[: words.index("--")] if "--" in words else words
    # Flags of one letter may be written together.
    flags = [f"-{letter}" for word in ahead if re.fullmatch(r"-[a-z]{2}", word) for letter in word[1:]]
    single = [word for word in ahead if not re.fullmatch(r"-[a-z]{2}", word)]
    unknown = [word for word in (*flags, *single) if re.match(r"--?[a-zA-Z]", word) and word.split("=")[0] not in known]
    assert not unknown, (where, command)


def test_pages_that_another_test_runs_are_run_by_it() -> None:
    for page in PAGES:
        for by in runners_of(page):
            assert page.name in (ROOT / by).read_text(), (page, by)


def test_what_is_not_run_says_why() -> None:
    reasons = [(block.name, block.not_run) for page in PAGES for block in blocks(page) if block.not_run]
    assert all(len(reason.split()) >= 4 for _, reason in reasons), reasons


def test_the_table_of_everyday_tasks_is_that_of_the_file() -> None:
    from scripts.everyday_table import PAGE, page

    written = PAGE.read_text()
    assert page(written) == written, "run scripts/everyday_table.py"
