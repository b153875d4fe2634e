"""ARCHITECTURE.md tells of the code that is there: its pictures by the imports, its links by the names they lead to."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import grimp
import pytest

from tests.tidy.source import ROOT, SRC, tree, where

PAGE = ROOT / "ARCHITECTURE.md"
FLOWCHART = re.compile(r"^```mermaid\nflowchart.*?^```", re.MULTILINE | re.DOTALL)
# `core_queue["core/queue<br/>…"]`: the label's first line is a path below src/ares.
NODE = re.compile(r'^\s*(\w+)\["([\w/]+)', re.MULTILINE)
ARROW = re.compile(r"^\s*([\w &]+?)\s*-->\s*([\w &]+?)\s*$", re.MULTILINE)
# A name in backquotes that leads to a module: `function`, `Class` or `Class.method`.
NAMED = re.compile(r"\[`([A-Za-z_]\w*(?:\.\w+)?)(?:\(\))?`\]\((src/[^)#]+\.py)\)")
STEPS = ("Submit", "Admit", "Queue", "Schedule", "Bind", "Run", "Report", "Commit")

Edge = tuple[str, str]


@cache
def _pictures() -> tuple[str, ...]:
    return tuple(match.group() for match in FLOWCHART.finditer(PAGE.read_text()))


def _drawn(picture: str) -> tuple[frozenset[str], frozenset[Edge]]:
    """Rooms as paths below src/ares, and arrows between them."""
    rooms = dict(NODE.findall(picture))
    arrows = {
        (rooms[start.strip()], rooms[end.strip()])
        for starts, ends in ARROW.findall(picture)
        for start in starts.split("&")
        for end in ends.split("&")
    }
    return frozenset(rooms.values()), frozenset(arrows)


@cache
def _imports() -> frozenset[Edge]:
    """Which module imports which, as paths below src/ares without the ending."""
    graph = grimp.build_graph("ares", cache_dir=None)
    path = {name: name.removeprefix("ares").lstrip(".").replace(".", "/") for name in graph.modules}
    found = ((name, graph.find_modules_directly_imported_by(name)) for name in graph.modules)
    return frozenset((path[start], path[end]) for start, ends in found for end in ends)


def _room(module: str, rooms: frozenset[str]) -> str | None:
    """The room that a module lies in: the deepest of those drawn."""
    inside = [room for room in rooms if module == room or module.startswith(f"{room}/")]
    return max(inside, key=len, default=None)


def _real(rooms: frozenset[str]) -> frozenset[Edge]:
    """Imports between rooms."""
    found = {(_room(start, rooms), _room(end, rooms)) for start, end in _imports()}
    return frozenset((start, end) for start, end in found if start and end and start != end)


def _reached(arrows: frozenset[Edge]) -> frozenset[Edge]:
    """All pairs that a way along arrows joins."""
    ahead: defaultdict[str, set[str]] = defaultdict(set)
    for start, end in arrows:
        ahead[start].add(end)
    found: set[Edge] = set()
    for start in list(ahead):
        todo = [start]
        while todo:
            for end in ahead[todo.pop()] - {seen for first, seen in found if first == start}:
                found.add((start, end))
                todo.append(end)
    return frozenset(found)


def _without_shortcuts(edges: frozenset[Edge]) -> list[str]:
    """Arrows that no way along others replaces: what a picture should show."""
    return sorted(f"{a} --> {b}" for a, b in edges if (a, b) not in _reached(edges - {(a, b)}))


@pytest.mark.parametrize("number", [0, 1])
def test_arrows_are_the_imports(number: int) -> None:
    rooms, arrows = _drawn(_pictures()[number])
    real = _real(rooms)
    should = _without_shortcuts(real)
    assert not arrows - real, f"no import behind {sorted(arrows - real)}; the picture should have {should}"
    missing = real - _reached(arrows)
    assert not missing, f"an import without a way along arrows: {sorted(missing)}; the picture should have {should}"


def test_pictures_show_every_room() -> None:
    """The first every folder of src/ares, with those of edge apart; the second every package of core."""

    def packages(folder: Path) -> set[str]:
        return {path.parent.relative_to(SRC).as_posix() for path in folder.glob("*/__init__.py")}

    house, core = (_drawn(picture)[0] for picture in _pictures())
    real = packages(SRC) - {"edge"} | packages(SRC / "edge")
    assert not house ^ real, f"drawn or there, not both: {sorted(house ^ real)}"
    assert not packages(SRC / "core") - core, f"not drawn: {sorted(packages(SRC / 'core') - core)}"


def _names(path: Path) -> set[str]:
    """What a module defines: functions, classes, their methods, and constants."""
    found: set[str] = set()
    for node in tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            found.update(f"{node.name}.{method.name}" for method in methods)
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(target.id for target in targets if isinstance(target, ast.Name))
    return found


def test_names_lead_to_their_definitions() -> None:
    links = NAMED.findall(PAGE.read_text())
    lost = [f"{name} is not defined in {path}" for name, path in links if name not in _names(ROOT / path)]
    assert links
    assert not lost, f"{where(PAGE)}: {lost}"


def test_steps_of_a_job_name_their_code() -> None:
    """One numbered step for each stage, in their order, and in each at least one function by name."""
    way = PAGE.read_text().partition("\n## One job's way\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^(\d+)\. \*\*(\w+)\.\*\*(.*?)(?=^\d+\. \*\*|\Z)", way, re.MULTILINE | re.DOTALL)
    assert [(number, title) for number, title, _ in steps] == [(str(n), title) for n, title in enumerate(STEPS, 1)]
    assert all(NAMED.search(text) for _, _, text in steps)
