"""How a run goes: files of tests that take long begin first, and at its end a run says where its time went."""

import gc
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

# Ten seconds and more for a test, as a rule, most of them of waiting; elsewhere the mark says so.
_LONG = ("tests/chaos/", "tests/e2e/")
_SHOWN = 10


def spread(items: Sequence[T], waiting: Sequence[Sequence[T]], working: Sequence[T], workers: int) -> list[T]:
    """The items in as many equal parts as there are workers, each beginning with its share of the long ones.

    Each worker begins with its part and takes half of another's rest when it has none (`--dist worksteal`). A long test
    that begins last has all but one processor wait for it. Some long tests wait for processes, others compute: half of
    the workers begin with the ones and half with the others, so that there is always something to compute. A group of
    those that wait stays together: it may share what it set up.
    """
    first = {item for group in waiting for item in group} | set(working)
    others = [item for item in items if item not in first]
    parts: list[list[T]] = []
    for worker in range(workers):
        halves = [item for group in waiting[worker::workers] for item in group], working[worker::workers]
        parts.append([*halves[worker % 2], *halves[1 - worker % 2]])
    left = len(items)
    for worker, part in enumerate(parts):
        size = max(left // (workers - worker) - len(part), 0)
        part += others[:size]
        del others[:size]
        left -= len(part)
    return [item for part in parts for item in part] + others


def failed_of(terminalreporter: pytest.TerminalReporter) -> list[str]:
    reports = [*terminalreporter.stats.get("failed", ()), *terminalreporter.stats.get("error", ())]
    return sorted({report.nodeid for report in reports})


def note_failed(path: Path, names: Sequence[str]) -> None:
    """Leaves the names for `scripts/second-look`, a line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}\n" for name in names))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After those that shuffle and leave out: the parts are made of what is left."""
    if config.option.markexpr == "soak":
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        if item.nodeid.startswith(_LONG):
            files.setdefault(item.path, []).append(item)
    slow = [item for item in items if item.path not in files and item.get_closest_marker("slow") is not None]
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    items[:] = spread(items, [*files.values()], slow, workers)
    # Modules and tests stay to the end: no search for garbage has to go through them.
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
