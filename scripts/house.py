#!/usr/bin/env python3
"""The house in figures: how large it is, and how entangled.

python scripts/house.py                    this checkout
python scripts/house.py --tree DIR         another one, such as a worktree of an older commit
python scripts/house.py --way              also runs a platform and one job, and counts the files on the job's way
python scripts/house.py --names --output json    the names behind the counts; for programs
"""

import argparse
import ast
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CLASS = re.compile(r"^ *class (\w+)[(:\[]", re.MULTILINE)
# Entry points and what makes a folder a package: imported by name, or by no module at all.
NOT_IMPORTED = ("__init__", "__main__", "_pb2")
# Put before everything else on the path of each process of a platform: writes down which functions ran in each phase.
RECORDER = """
import atexit, json, os, sys, threading, time
_folder, _seen, _phase = os.environ["HOUSE_PHASES"], set(), ""
def _call(frame, event, _):
    if event == "call":
        _seen.add(frame.f_code)
def _flush():
    global _seen
    done, _seen = _seen, set()
    # Bodies of classes and modules run when they are imported: only a function's locals are optimized.
    called = (code for code in done if code.co_flags & 1 and not code.co_qualname.startswith("<"))
    found = sorted({(code.co_filename, code.co_qualname) for code in called if "/ares/" in code.co_filename})
    if _phase and found:
        with open(f"{_folder}/{_phase}.{os.getpid()}.{time.time_ns()}.json", "w") as file:
            json.dump(found, file)
def _follow():
    global _phase
    while True:
        with open(f"{_folder}/phase") as file:
            now = file.read()
        if now != _phase:
            _flush()
            _phase = now
        time.sleep(0.02)
atexit.register(_flush)
threading.Thread(target=_follow, daemon=True).start()
threading.setprofile(_call)
sys.setprofile(_call)
"""
# Folders of parts that one table names, each read by itself.
TABLES = (
    "app/commands", "check/invariants/rules", "core/queue/factors", "core/schedule/actions", "core/schedule/filters",
    "core/schedule/scorers", "edge/cli/commands", "edge/rest/handlers", "edge/rest/routes", "sim/mutants",
    "sim/traces/formats", "sim/world/cases",
)  # fmt: skip
LINES_MAX = 400
IDLE_S = 5.0
WAIT_S = 120.0


class Tree:
    """The modules of one checkout, by their paths below src/ares without the ending."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.top = root / "src" / "ares"
        files = [path for path in sorted(self.top.rglob("*.py")) if "_pb2" not in path.name]
        self.texts = {path.relative_to(self.top).with_suffix("").as_posix(): path.read_text() for path in files}
        self.importers: defaultdict[str, set[str]] = defaultdict(set)
        for module, text in self.texts.items():
            for target in self._imported(ast.parse(text)):
                self.importers[target].add(module)

    def _imported(self, tree: ast.Module) -> Iterable[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (found for alias in node.names if (found := self._module(alias.name)))
            elif isinstance(node, ast.ImportFrom) and node.module:
                below = [self._module(f"{node.module}.{alias.name}") for alias in node.names]
                yield from (found for name in below if (found := name or self._module(node.module)))

    def _module(self, name: str) -> str | None:
        """None where the name is no module of ours."""
        path = name.removeprefix("ares.").replace(".", "/") if name.startswith("ares.") else ""
        return path if path in self.texts else f"{path}/__init__" if path and f"{path}/__init__" in self.texts else None

    def classes(self) -> dict[str, list[str]]:
        """Class names that stand for several classes."""
        homes: defaultdict[str, list[str]] = defaultdict(list)
        for module, text in self.texts.items():
            for name in CLASS.findall(text):
                homes[name].append(module)
        return {name: files for name, files in sorted(homes.items()) if len(files) > 1}

    def folders(self) -> Counter[str]:
        return Counter(module.rpartition("/")[0] for module in self.texts if not module.endswith("__init__"))

    def circles(self) -> list[str]:
        """Pairs of packages of the second level, such as core/queue, that import each other."""

        def package(module: str) -> str:
            return "/".join(module.split("/")[:-1][:2])

        edges = {(package(user), package(used)) for used, users in self.importers.items() for user in users}
        return sorted(f"{a} <-> {b}" for a, b in edges if a < b and (b, a) in edges and not b.startswith(f"{a}/"))

    def single(self) -> list[str]:
        return sorted(
            module for module, users in self.importers.items() if len(users) == 1 and not module.endswith(NOT_IMPORTED)
        )

    def mergeable(self) -> list[str]:
        """Of those with one importer, the ones in the same folder as it that a reader would find whole: no parts of a
        table, and together within the bound of a file."""
        found: list[str] = []
        for module in self.single():
            (user,) = self.importers[module]
            folder = module.rpartition("/")[0]
            size = self.texts[module].count("\n") + self.texts[user].count("\n")
            if folder == user.rpartition("/")[0] and folder not in TABLES and size <= LINES_MAX and "__" not in user:
                found.append(module)
        return found


def duplicates(tree: Tree) -> str:
    """What the command `duplicates` counts, where the machine has it: all, and those that are alike to the letter."""
    if shutil.which("duplicates") is None:
        return "-"
    command = ["duplicates", "--repo", "src", "--most", "1", "--seconds", "300"]
    said = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=False).stdout
    found = re.match(r"(\d+) pairs.*?\((\d+) by shape alone", said)
    return f"{found[1]} ({int(found[1]) - int(found[2])} to the letter)" if found else "-"


# ---- a job's way


def way(tree: Tree) -> list[str]:
    """Files with a function that runs while one job goes its way, and not while the platform rests.

    Counted in the server, the planner and the agent; not in the command that submits, nor within a slot.
    """
    with tempfile.TemporaryDirectory(prefix="house-") as name:
        folder, phases = Path(name), Path(name) / "phases"
        phases.mkdir()
        (folder / "sitecustomize.py").write_text(RECORDER)
        plain = os.environ | {
            "PYTHONPATH": str(tree.root / "src"),
            "ARES_HOME": str(folder / "home"),
            # A job without files: the way of most.
            "ARES_SHIP": "never",
        }
        recorded = plain | {
            "PYTHONPATH": f"{folder}{os.pathsep}{tree.root / 'src'}",
            "HOUSE_PHASES": str(phases),
        }

        def ares(environment: Mapping[str, str], *arguments: str) -> None:
            command = [sys.executable, "-m", "ares", *arguments]
            subprocess.run(command, env=environment, cwd=folder, check=True, stdout=sys.stderr, timeout=WAIT_S)

        _phase(phases, "start")
        ports = _free_ports(2)
        try:
            ares(recorded, "up", "--port", str(ports[0]), "--set", f"agents.port={ports[1]}")
            _phase(phases, "idle", IDLE_S)
            _phase(phases, "job")
            ares(plain, "submit", "--wait", "--", "true")
            _phase(phases, "end")
        finally:
            ares(plain, "down")
        seen = {name: _seen(phases, name, tree.top) for name in ("idle", "job")}
    return sorted({file for file, _ in seen["job"] - seen["idle"]})


def _phase(folder: Path, name: str, lasts_s: float = 1.0) -> None:
    """Renamed into its place: no reader may find it empty."""
    (folder / "next").write_text(name)
    (folder / "next").rename(folder / "phase")
    time.sleep(lasts_s)


def _seen(folder: Path, phase: str, top: Path) -> set[tuple[str, str]]:
    return {
        (Path(file).relative_to(top).as_posix(), function)
        for path in folder.glob(f"{phase}.*.json")
        for file, function in json.loads(path.read_text())
        if Path(file).is_relative_to(top) and function != "<module>"
    }


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


# ---- the table


def figures(tree: Tree, *, with_way: bool) -> dict[str, tuple[Any, Iterable[str]]]:
    """What is counted -> the figure, and the names behind it."""
    folder, size = tree.folders().most_common(1)[0]
    double, circles, single = tree.classes(), tree.circles(), tree.single()
    found: dict[str, tuple[Any, Iterable[str]]] = {
        "lines": (sum(text.count("\n") for text in tree.texts.values()), ()),
        "files": (len(tree.texts), ()),
        "largest folder": (f"{size} ({folder})", (f"{n} {name}" for name, n in tree.folders().most_common(10))),
        "class names with several meanings": (len(double), (f"{k}: {', '.join(v)}" for k, v in double.items())),
        "pairs that `duplicates --repo src` finds": (duplicates(tree), ()),
        "packages that import each other": (len(circles), circles),
        "modules with one importer": (len(single), single),
        "of them in its folder and together short": (len(tree.mergeable()), tree.mergeable()),
    }
    if with_way:
        files = way(tree)
        found["files on a job's way"] = (len(files), files)
    return found


def _print(found: Mapping[str, tuple[Any, Iterable[str]]], asked: argparse.Namespace) -> None:
    if asked.output == "json":
        print(json.dumps({name: {"figure": n, "names": list(names)} for name, (n, names) in found.items()}, indent=1))
        return
    for name, (figure, names) in found.items():
        print(f"{name:<44}{figure:,}" if isinstance(figure, int) else f"{name:<44}{figure}")
        if asked.names:
            print("".join(f"    {one}\n" for one in names), end="")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=ROOT, help="The checkout to look at.")
    parser.add_argument("--way", action="store_true", help="Run a platform and one job, and count the files.")
    parser.add_argument("--names", action="store_true", help="Also what was counted.")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    asked = parser.parse_args()
    _print(figures(Tree(asked.tree.resolve()), with_way=asked.way), asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
