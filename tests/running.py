"""How a run goes: files of tests that take long begin first, and at its end a run says where its time went."""

import gc
import os
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import pytest

# Ten seconds and more for a test, as a rule, most of them of waiting; elsewhere the mark says so.
_LONG = ("tests/chaos/", "tests/e2e/")
_SHOWN = 10
# Quick tests of a file that go to one worker: hundreds of them take long too.
_TOGETHER = 40
_SHARED = ("class", "module", "package")


Kind = Literal["quick", "computes", "waits"]
_KINDS: tuple[Kind, ...] = get_args(Kind)


class Group(NamedTuple):
    """Tests that one worker runs, one after the other, by their places among all."""

    tests: list[int]
    kind: Kind


def groups_of(items: Sequence[pytest.Item]) -> list[Group]:
    """A long test goes alone, unless it shares what its file sets up; quick ones go by files or large parts of them.

    Those that may take longest come first: tests with a time limit of their own, then groups of many.
    """
    files: dict[Path, list[int]] = {}
    for index, item in enumerate(items):
        files.setdefault(item.path, []).append(index)
    groups: list[Group] = []
    for tests in files.values():
        if any(_shares(items[index]) for index in tests):
            groups += _sharing(items, tests)
            continue
        kinds = {index: _kind(items[index]) for index in tests}
        groups += [Group([index], kind) for index, kind in kinds.items() if kind != "quick"]
        quick = [index for index, kind in kinds.items() if kind == "quick"]
        groups += [Group(quick[at : at + _TOGETHER], "quick") for at in range(0, len(quick), _TOGETHER)]
    return sorted(groups, key=lambda group: (-_limit(items[group.tests[0]]), -len(group.tests)))


def _sharing(items: Sequence[pytest.Item], tests: Sequence[int]) -> Iterator[Group]:
    """Tests of a file by the parameters of what they share: each is set up once, and no two at the same time."""
    parts: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for index in tests:
        called = getattr(items[index], "callspec", None)
        chosen = {} if called is None else called.indices
        shared = tuple((name, at) for name, at in chosen.items() if called._arg2scope[name].value in _SHARED)
        parts.setdefault(shared, []).append(index)
    for part in parts.values():
        yield Group(part, max((_kind(items[index]) for index in part), key=_KINDS.index))


def _limit(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark is not None and mark.args else 0.0


def _kind(item: pytest.Item) -> Kind:
    if item.nodeid.startswith(_LONG):
        return "waits"
    return "computes" if item.get_closest_marker("slow") is not None else "quick"


def _shares(item: pytest.Item) -> bool:
    """Whether it uses what is set up once for several tests."""
    found = getattr(item, "_fixtureinfo", None)
    return found is not None and any(
        fixtures[-1].scope in _SHARED for name, fixtures in found.name2fixturedefs.items() if not name.startswith("_")
    )


class Queue:
    """Groups in the order in which workers get them: long ones first.

    A long test that begins last has all but one processor wait for it. Some long tests wait for processes, others
    compute: as many workers as there are processors begin with those that compute, so that there is always something
    to compute and never so much that the others starve.
    """

    def __init__(self, groups: Sequence[Group], workers: int, processors: int | None = None) -> None:
        self._left = {kind: deque(group.tests for group in groups if group.kind == kind) for kind in _KINDS}
        self._computing = min(processors or os.cpu_count() or 1, workers // 2)

    def next_for(self, worker: int) -> list[int]:
        """A group; nothing when none is left."""
        first: Kind = "computes" if worker < self._computing else "waits"
        order = (first, *reversed(_KINDS))
        return next((self._left[kind].popleft() for kind in order if self._left[kind]), [])


def failed_of(terminalreporter: pytest.TerminalReporter) -> list[str]:
    reports = [*terminalreporter.stats.get("failed", ()), *terminalreporter.stats.get("error", ())]
    return sorted({report.nodeid for report in reports})


def note_failed(path: Path, names: Sequence[str]) -> None:
    """Leaves the names for `scripts/second-look`, a line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}\n" for name in names))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: no search for garbage has to go through them."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if path := os.environ.get("ARES_FAILED"):
        note_failed(Path(path), failed_of(terminalreporter))
    spent: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                spent[report.nodeid.partition("::")[0]] += report.duration
    if len(spent) > _SHOWN:
        terminalreporter.section(f"{_SHOWN} slowest of {len(spent)} files, {sum(spent.values()):.0f} s in sum")
        for path, seconds in sorted(spent.items(), key=lambda one: -one[1])[:_SHOWN]:
            terminalreporter.write_line(f"{seconds:6.1f} s  {path}")
