"""The files the tidy tests look at."""

import ast
import gc
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "ares"
TESTS = ROOT / "tests"


@cache
def tracked() -> tuple[Path, ...]:
    """Files git knows or would add. The clone may belong to another user than the one testing."""
    out = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    return tuple(path for name in out.split("\0") if name and (path := ROOT / name).is_file())


def python_files(under: Path) -> list[Path]:
    """Written, not generated, Python."""
    return [p for p in tracked() if p.suffix == ".py" and p.is_relative_to(under) and "_pb2" not in p.name]


def documents() -> list[Path]:
    return [p for p in tracked() if p.suffix == ".md"]


@cache
def tree(path: Path) -> ast.Module:
    """Without garbage collection: a task collected meanwhile logs its exception, for which CPython 3.11 parses a line
    of source, and a parse within a parse fails there (a SystemError about the recursion depth)."""
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    finally:
        gc.enable()


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in ast.walk(tree(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def imported(path: Path) -> set[str]:
    """Full names of the modules a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def where(path: Path, line: int = 0) -> str:
    name = str(path.relative_to(ROOT))
    return f"{name}:{line}" if line else name
