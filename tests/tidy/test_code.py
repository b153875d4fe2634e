"""Limits that keep the code readable, and what the layers may touch."""

import ast
import re
import sys
from pathlib import Path

from tests.tidy.source import ROOT, SRC, functions, imported, python_files, tree, where

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
# Builtins that reach outside or run text; imports are banned by ruff, see pyproject.toml.
IMPURE_CALLS = {"open", "print", "input", "eval", "exec", "__import__", "breakpoint"}
# The loops of control and agent get these through ports, so that a simulation can own them.
NOT_IN_LOOPS = {"time", "random", "secrets", "uuid", "socket", "subprocess", "threading"}
WALL_CLOCK = re.compile(r"\bdatetime\.(now|utcnow|today)\b|\.time\(\)\s*#\s*noqa")


def test_files_are_short() -> None:
    long = {where(p): n for p in python_files(SRC) if (n := len(p.read_text().splitlines())) > FILE_LINES_MAX}
    assert not long, f"over {FILE_LINES_MAX} lines, a concept is missing: {long}"


def test_functions_are_short() -> None:
    long = {
        where(p, f.lineno): f"{f.name}: {size} lines"
        for p in python_files(SRC)
        for f in functions(p)
        if (size := (f.end_lineno or 0) - f.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert not long, f"over {FUNCTION_LINES_MAX} lines: {long}"


def test_nothing_is_left_for_later() -> None:
    later = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = [
        where(p, n)
        for p in python_files(ROOT)
        if p != Path(__file__)
        for n, line in enumerate(p.read_text().splitlines(), 1)
        if later.search(line)
    ]
    assert not found


def test_decisions_are_pure() -> None:
    """No waiting and no reaching out by builtins in model, api and core."""
    found: list[str] = []
    for path in (path for layer in ("model", "api", "core") for path in python_files(SRC / layer)):
        for node in ast.walk(tree(path)):
            waits = isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
            reaches = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS
            if isinstance(node, ast.stmt | ast.expr) and (waits or reaches):
                found.append(f"{where(path, node.lineno)} {ast.unparse(node)[:60]}")
    assert not found


def test_control_and_agent_take_time_and_chance_from_ports() -> None:
    files = [*python_files(SRC / "control"), *python_files(SRC / "agent")]
    # The helper is a process of its own in a job's slot, which no simulation runs: it looks for free ports itself.
    helper = SRC / "agent" / "helper"
    allowed = {p: {"socket"} if p.parent == helper else set[str]() for p in files}
    found = {where(p): bad for p in files if (bad := imported(p) & NOT_IN_LOOPS - allowed[p])}
    found |= {where(p): {"datetime.now"} for p in files if WALL_CLOCK.search(p.read_text())}
    assert files
    assert not found


def test_no_catch_all_modules() -> None:
    found = [where(p) for p in python_files(SRC) if p.stem in {"utils", "util", "helpers", "misc", "common"}]
    assert not found


def test_ares_job_needs_only_the_standard_library() -> None:
    """A job's own environment may hold nothing of ours but this file."""
    files = [p for p in python_files(SRC) if p.relative_to(SRC).parts[0] in {"job", "job.py", "job_checkpoints.py"}]
    foreign = {
        name for p in files for name in imported(p)
        if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith("ares.job")
    }  # fmt: skip
    assert files
    assert not foreign
