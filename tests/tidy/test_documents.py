"""Documents that stay true: links lead somewhere, the newcomer's page keeps its promise."""

import re
import subprocess
from pathlib import Path

import pytest

import ares
from tests.documents import PAGES, blocks
from tests.tidy.source import ROOT, documents, tracked, where

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# Written in pieces, so that this file does not name them.
PRIVATE = re.compile(
    "|".join(["/ro" + "ot/", "/work/" + r"(main|shared)", "/tmp/" + "brief", "/opt/" + "(pypi|wheels)",
              r"https?://[^\s/]*(artifact|nexus|mirror|regis" + r"try)", "(extra-)?index-" + r"url\s*="])
)  # fmt: skip
# Pages for users: all of docs but the decisions. A path that a page names, in a link or in a command.
SOURCE_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+src/ares/[^)\s]*)\)")
NAMED_PATH = re.compile(r"(?<![\w/.-])(?:src/ares|tests|scripts|bench|oracles|plugins|scenarios)/[\w./-]*\w")
BINARY = {".png", ".ico", ".woff2", ".gz"}


def _anchors(path: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def _broken(page: Path) -> list[str]:
    broken: list[str] = []
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        to = (page.parent / target).resolve() if target else page
        if not to.exists() or (anchor and to.suffix == ".md" and anchor not in _anchors(to)):
            broken.append(link)
    return broken


def test_links_resolve() -> None:
    broken = {where(p): links for p in documents() if (links := _broken(p))}
    assert not broken


def test_no_page_is_lost() -> None:
    """Every page under docs is reached from a link somewhere."""
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in documents()
        for link in LINK.findall(page.read_text())
    }
    lost = [where(p) for p in documents() if p.is_relative_to(ROOT / "docs") and p not in linked]
    assert not lost


def _user_pages() -> list[Path]:
    docs = ROOT / "docs"
    return [p for p in documents() if p.is_relative_to(docs) and not p.is_relative_to(docs / "adr")]


def test_source_comes_last() -> None:
    """A reader wants to do something; where it is written stands at the end of the page, by its place in the tree."""
    early: dict[str, list[str]] = {}
    misnamed: dict[str, list[str]] = {}
    for page in _user_pages():
        text, _, source = page.read_text().partition("\n## Source\n")
        if found := [label for label, _ in SOURCE_LINK.findall(text)]:
            early[where(page)] = found
        if found := [label for label, to in SOURCE_LINK.findall(source) if to.partition("src/ares/")[2] != label]:
            misnamed[where(page)] = found
    assert not early, f"move to a section '## Source' at the end: {early}"
    assert not misnamed, f"not the path below src/ares that it leads to: {misnamed}"


def test_paths_that_documents_name_exist() -> None:
    pages = [*_user_pages(), ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
    gone = {
        where(page): bad for page in pages
        if (bad := [name for name in NAMED_PATH.findall(page.read_text()) if not (ROOT / name).exists()])
    }  # fmt: skip
    assert not gone


def test_every_promise_that_broke_has_a_test_that_holds_it() -> None:
    """By the numbers 1 to 19 of the independent tries, each with a path that exists."""
    text = (ROOT / "docs/reliability.md").read_text().partition("| item | what broke |")[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ") for row in text.splitlines()[2:]]
    assert {int(number) for item, *_ in rows for number in item.split(", ")} == set(range(1, 20))
    without = [row for row in rows if not any((ROOT / name).exists() for name in NAMED_PATH.findall(row[-1]))]
    assert not without, without


def test_readme_has_two_set_up_commands() -> None:
    text = (ROOT / "README.md").read_text()
    commands = [line.split("#")[0].strip() for block in FENCE.findall(text) for line in block.splitlines()]
    assert [c for c in commands if c.startswith("make ")] == ["make up", "make test"]
    assert not [c for c in commands if re.search(r"\b(pip|apt|apt-get|-m venv|docker|export)\b", c)]


def test_changelog_knows_this_version() -> None:
    assert re.search(rf"^## \[?{re.escape(ares.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_no_machine_of_ours_is_named() -> None:
    named = {
        where(p, n): line.strip()[:80]
        for p in tracked()
        if p.suffix not in BINARY
        for n, line in enumerate(p.read_text(errors="replace").splitlines(), 1)
        if PRIVATE.search(line)
    }
    assert not named


@pytest.mark.parametrize("name", [".venv/x", "src/ares/__pycache__/x.pyc", ".ares/admin.token", "dist/x.whl"])
def test_what_is_built_or_secret_is_ignored(name: str) -> None:
    ask = ["git", "-c", "safe.directory=*", "check-ignore", "--quiet", "--no-index", name]
    assert subprocess.run(ask, cwd=ROOT, check=False).returncode == 0


def test_a_block_that_another_test_runs_is_read_by_it() -> None:
    named = [(block, ROOT / block.run_by) for page in PAGES for block in blocks(page) if block.run_by]
    wrong = [block.name for block, runner in named if not runner.is_file() or block.page.name not in runner.read_text()]
    assert named
    assert wrong == [], "the file that is said to run it does not name the page"
