"""Seeds and platforms for chaos: what was random is printed, and can be given again by ARES_CHAOS_SEED.

`make chaos` runs the rows of the programme one after the other, and says at the end what was counted in each. A test
that stands for many cases says how many: `record_property("cases", n)`."""

import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.platform import Platform, StoreKind, say


@pytest.fixture
def seed() -> int:
    chosen = int(os.environ.get("ARES_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
    say(f"ARES_CHAOS_SEED={chosen}")
    return chosen


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[[StoreKind], Platform]]:
    """Makes an empty platform on the store named."""
    with ExitStack() as stack:
        yield lambda store: stack.enter_context(Platform(tmp_path / "platform", store, warm=True))


# ---- rows of the programme, in the order they are run

HERE = Path(__file__).parent
ROWS: dict[str, str] = {
    "zombies": "3 zombies: frozen processes at every point",
    "disk": "4, 5, 12 kill, errors and full disks at every system call; damaged files",
    "test_loss.py": "3 killed, frozen and cut-off nodes",
    "store": "7 faults of the store",
    "links": "8 faults of every link",
    "federation": "8 links between clusters and their global plane",
    "messages": "10 repeated, reordered and late messages",
    "clocks": "9 jumps of the wall clock",
    "users": "ares chaos, ares verify",
    "storms": "16 storms",
    "versions": "17 mixed versions, rolling restart",
    "test_kill.py": "7, 15 kills under load",
    "soak": "15 soak",
}
ELSEWHERE = "others that take minutes"


def row_of(path: Path) -> str:
    parts = path.relative_to(HERE).parts if path.is_relative_to(HERE) else ("",)
    return ROWS.get(parts[0], ELSEWHERE)


def _minutes(config: pytest.Config) -> bool:
    return config.option.markexpr == "soak"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _minutes(config):
        order = [ELSEWHERE, *ROWS.values()]
        items.sort(key=lambda item: order.index(row_of(item.path)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not _minutes(config):
        return
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.getreports(outcome):
            row = counts[row_of(config.rootpath / report.location[0])]
            row[outcome] += 1
            row["cases"] += sum(value for name, value in report.user_properties if name == "cases") or 1
    terminalreporter.section("rows of the programme")
    for row in [ELSEWHERE, *ROWS.values()]:
        if found := counts.get(row):
            told = ", ".join(
                f"{found[what]} {what}" for what in ("passed", "failed", "error", "skipped") if found[what]
            )
            terminalreporter.write_line(f"{row}: {told}; {found['cases']} cases")
