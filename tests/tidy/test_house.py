"""The house stays in order: a class name means one thing, folders stay small, sentences and loops have a subject."""

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.source import SRC, python_files, tree

CLASS = re.compile(r"^ *class (\w+)[(:\[]", re.MULTILINE)
# Files whose classes may have the names of other classes.
OTHER_NAMESPACES = {
    "check/invariants/records.py": "the judges' own readers of the records that the platform writes, by the same names",
    "check/invariants/rules/": "a rule's class name is the name of the rule in every verdict",
}

MODULES_MAX = 20
# A folder of parts of one shape, each reached through one table and none knowing its neighbour: it is read one part
# at a time, so its size costs no reader anything.
PLUGINS = (
    "check/invariants/rules", "core/queue/factors", "core/schedule/filters", "core/schedule/scorers",
    "edge/cli/commands", "edge/rest/handlers", "sim/mutants", "sim/traces/formats",
)  # fmt: skip

NO_SUBJECT = re.compile(r"\b(whoever|somebody|nobody|anybody|everybody|anyone|someone|everyone)\b", re.IGNORECASE)
# How often a package still says one of these words. The numbers only shrink; a package that is not here has none.
STILL_SAID = {
    ".": 1, "api": 7, "app": 2, "edge": 11, "model": 2,
}  # fmt: skip


def _inside(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def _package(path: Path) -> str:
    """`core` for everything below it, and `.` for the top."""
    return next(iter(path.relative_to(SRC).parent.parts), ".")


def test_a_class_name_means_one_thing() -> None:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path in python_files(SRC):
        if not _inside(path).startswith(tuple(OTHER_NAMESPACES)):
            for name in CLASS.findall(path.read_text(encoding="utf-8")):
                homes[name].append(_inside(path))
    double = {name: files for name, files in homes.items() if len(files) > 1}
    assert not double, f"one name, one concept: rename one of each, or let both use one class: {double}"


# Records: a module to a subject, as `core` has its folders. It has no decisions in which a reader could get lost.
RECORDS = {"model": 24}


def test_folders_stay_small() -> None:
    sizes = Counter(path.relative_to(SRC).parent.as_posix() for path in python_files(SRC) if path.stem != "__init__")
    large = {
        folder: size
        for folder, size in sizes.items()
        if folder not in PLUGINS and size > RECORDS.get(folder, MODULES_MAX)
    }
    assert not large, f"over {MODULES_MAX} modules, a subject in it wants a folder of its own: {large}"


def _prose(path: Path) -> Iterator[str]:
    """Comments and docstrings, of a file that has such a word at all: few have, and taking files apart is slow."""
    text = path.read_text(encoding="utf-8")
    if NO_SUBJECT.search(text) is None:
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""


def test_sentences_have_a_subject() -> None:
    said: Counter[str] = Counter()
    for path in python_files(SRC):
        said[_package(path)] += sum(len(NO_SUBJECT.findall(text)) for text in _prose(path))
    more = {
        name: f"{count}, {STILL_SAID.get(name, 0)} before"
        for name, count in said.items()
        if count > STILL_SAID.get(name, 0)
    }
    assert not more, f"name the job, the node, the tenant instead of {NO_SUBJECT.pattern}: {more}"


def _loop_targets(path: Path) -> Iterator[ast.expr]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            yield node.target


def test_a_loop_variable_carries_its_noun() -> None:
    nameless = [
        f"{_inside(path)}:{name.lineno}"
        for path in python_files(SRC)
        for target in _loop_targets(path)
        for name in ast.walk(target)
        if isinstance(name, ast.Name) and name.id == "one"
    ]
    assert not nameless, f"name what is gone through, `for job in jobs`: {nameless}"
