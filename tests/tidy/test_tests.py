"""The tests themselves: each can fail, none waits by the clock, none is skipped without a word."""

import ast
import re

from tests.tidy.source import TESTS, functions, python_files, tree, where

JUDGES = re.compile(r"raises|warns|assert|check|expect|verify|validate|eventually|until|judge")


def _judges(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and bool(JUDGES.search(ast.unparse(node.func))))


def test_every_test_can_fail() -> None:
    idle = [
        f"{where(p, f.lineno)} {f.name}"
        for p in python_files(TESTS)
        for f in functions(p)
        if f.name.startswith("test_") and not any(_judges(node) for node in ast.walk(f))
    ]
    assert not idle


def _silent_skip(node: ast.Call) -> bool:
    name = ast.unparse(node.func)
    if name in {"pytest.mark.skip", "pytest.mark.skipif"}:
        return not any(k.arg == "reason" for k in node.keywords)
    return name == "pytest.importorskip" or (name == "pytest.skip" and not (node.args or node.keywords))


def test_skips_say_why() -> None:
    calls = [(p, node) for p in python_files(TESTS) for node in ast.walk(tree(p)) if isinstance(node, ast.Call)]
    assert [where(p, call.lineno) for p, call in calls if _silent_skip(call)] == []
