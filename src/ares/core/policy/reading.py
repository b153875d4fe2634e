"""What may be written in a rule beyond what its types allow: nothing that takes long, nothing that dodges types.

A loop inside a loop, or a list read again for every element of another, takes the product of their lengths; a
command has up to 4096 words. So loops do not nest, and inside one only its own variable and plain values are read.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final, NamedTuple

from ares.core.policy.facts import FUNCTIONS, MANY, NAMES
from ares.model.policy import Mistake

# The evaluator stops after 10,000 rounds in all.
LOOPS_MAX: Final = 2
_LOOPS: Final = frozenset({"all", "exists", "exists_one"})
# Functions that copy what they have for every element they add.
_COPYING: Final = frozenset({"filter", "map"})
_OPEN: Final = "([{"
_CLOSE: Final = ")]}"
_ROOTS: Final = frozenset(name.split(".")[0] for name in NAMES)
_TOKEN: Final = re.compile(
    r"""(?P<comment>//[^\n]*)
    |(?P<string>(?:[bB]?[rR]|[rR][bB])(?:'''(?:.|\n)*?'''|\"\"\"(?:.|\n)*?\"\"\"|'[^'\n]*'|"[^"\n]*")
    |[bB]?(?:'''(?:\\(?:.|\n)|[^\\])*?'''|\"\"\"(?:\\(?:.|\n)|[^\\])*?\"\"\"|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<other>`|[^\s])""",
    re.VERBOSE,
)


class Token(NamedTuple):
    kind: str
    text: str
    at: int


def tokens(expression: str) -> Iterator[Token]:
    for found in _TOKEN.finditer(expression):
        kind = found.lastgroup or "other"
        if kind != "comment":
            yield Token(kind, found[0], found.start())


def refused(expression: str) -> Mistake | None:
    """The first thing in the expression that may not be there."""
    words = list(tokens(expression))
    # For each open bracket, whether it holds the inside of a loop.
    open_: list[bool] = []
    loops = 0
    for place, (kind, text, at) in enumerate(words):
        inside = any(open_)
        why = _word(words, place, inside) if kind == "name" else _sign(words, place)
        if why is not None:
            return _at(expression, at, *why)
        if kind == "other" and text in _OPEN:
            loop = place > 0 and words[place - 1].kind == "name" and words[place - 1].text in _LOOPS
            if loop and inside:
                return _at(expression, at, "a loop inside a loop", "use `in` with a list of values, or two rules")
            loops += loop
            open_.append(loop)
        elif kind == "other" and text in _CLOSE and open_:
            open_.pop()
    if loops > LOOPS_MAX:
        return _at(expression, 0, f"{loops} loops; at most {LOOPS_MAX} are allowed", "make it two rules")
    return None


def _word(words: list[Token], place: int, inside: bool) -> tuple[str, str] | None:
    """Why a name may not stand here."""
    text, name = words[place].text, _whole(words, place)
    if text == "dyn" and words[place + 1 : place + 2] and words[place + 1].text == "(":
        return "dyn() would hide mistakes until a job comes", "leave it out; convert instead"
    if text in _COPYING and words[place + 1 : place + 2] and words[place + 1].text == "(":
        return f"{text}() takes too long with many words", "ask with exists() or all()"
    # Whatever else it may be part of, it would not be found here by its whole name.
    if name and name == text and name not in NAMES:
        return f"{text} alone is nothing", f"write {text}.NAME as one word, and call no variable {text}"
    if inside and name in MANY:
        return f"{name} is read inside a loop", "only plain values may be read there"
    return None


def _sign(words: list[Token], place: int) -> tuple[str, str] | None:
    text = words[place].text
    if text == "`":
        return "names in backticks are not known here", "write job.labels['a/b'] instead"
    before = words[place - 1] if place else Token("other", "(", 0)
    follows = (before.kind == "name" and before.text != "in") or before.kind == "string" or before.text in _CLOSE
    after = words[place + 1 : place + 2]
    if text == "." and not follows and after and after[0].kind == "name":
        return "a name begins with a dot", "leave the dot out"
    return None


def names_in(expression: str) -> tuple[str, ...]:
    """The names of the table that the expression reads, in the order of their first use."""
    words = list(tokens(expression))
    return tuple(dict.fromkeys(name for place in range(len(words)) if (name := _whole(words, place)) in NAMES))


def patterns_in(expression: str) -> Iterator[tuple[str, Mistake]]:
    """Literal patterns of `matches`, each with the mistake to report if it is no pattern."""
    words = list(tokens(expression))
    asked: list[bool] = []
    for place, (kind, text, at) in enumerate(words):
        if kind == "other" and text in _OPEN:
            asked.append(place > 0 and words[place - 1].text == "matches")
        elif kind == "other" and text in _CLOSE and asked:
            asked.pop()
        elif kind == "string" and asked and asked[-1] and words[place + 1 : place + 2] and words[place + 1].text == ")":
            yield text, _at(expression, at, f"{text} is not a regular expression", "RE2 syntax: no look-around")


def _whole(words: list[Token], place: int) -> str:
    """The dotted name that begins here; empty after a dot."""
    kind, text, _ = words[place]
    if kind != "name" or text not in _ROOTS or (place > 0 and words[place - 1].text == "."):
        return ""
    if text in NAMES:
        return text
    below = words[place + 1 : place + 3]
    return f"{text}.{below[1].text}" if len(below) == 2 and below[0].text == "." else text


def _at(expression: str, at: int, message: str, hint: str) -> Mistake:
    before = expression[:at]
    line = before.count("\n") + 1
    return Mistake(message=message, line=line, column=at - (before.rfind("\n") + 1) + 1, hint=hint)


# ---- what is wrong with an expression, and what was probably meant

_UNDECLARED: Final = re.compile(r"undeclared reference to '([^']+)'")
_OVERLOAD: Final = re.compile(r"found no matching overload for '([^']+)' applied to '(.*)'")
_MISTAKE: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*?)(?=\n \||\nERROR:| \[[A-Z_]+\]$|$)", re.DOTALL)
_STATUS: Final = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")


def first_of(text: str, expression: str) -> Mistake:
    """The first mistake that the compiler named, in plain words."""
    found = _MISTAKE.search(text)
    if found is None:
        return Mistake(message=_STATUS.sub("", text).strip())
    line, column, said = int(found[1]), int(found[2]), found[3].strip()
    if named := _UNDECLARED.search(said):
        name = named[1]
        return Mistake(
            message=f"there is no {name}", line=line, column=_begin(expression, line, column, name), hint=_meant(name)
        )
    if wrong := _OVERLOAD.search(said):
        symbol, types = wrong[1].strip("_"), wrong[2]
        return Mistake(message=f"{symbol} does not take {types}", line=line, column=column, hint=_mixed(types))
    hint = "write == to compare" if "error at: '= " in said else ""
    return Mistake(message=_plain(said), line=line, column=column, hint=hint)


def _plain(said: str) -> str:
    """The message without the list of every token that could have come next."""
    return said.split(" expecting {", maxsplit=1)[0].removeprefix("Syntax error: ")


def _begin(expression: str, line: int, column: int, name: str) -> int:
    """Where the name begins: compilers point to its last dot."""
    lines = expression.split("\n")
    text = lines[line - 1] if line <= len(lines) else ""
    # For a function call, compilers point to the bracket behind it.
    for start in (column - 1 - max(0, name.rfind(".")), column - 1 - len(name)):
        if start >= 0 and text.startswith(name, start):
            return start + 1
    return column


def _meant(name: str) -> str:
    root, _, rest = name.partition(".")
    close = get_close_matches(name, NAMES, n=2, cutoff=0.6)
    close += [word for word in get_close_matches(name, FUNCTIONS, n=1, cutoff=0.6) if word not in close]
    if not close and rest:
        close = [other for other in NAMES if other.startswith(f"{root}.") and rest in other][:3]
    if close:
        return f"did you mean {' or '.join(close)}?"
    known = sorted({known.split(".")[0] for known in NAMES})
    below = [other for other in NAMES if other.startswith(f"{root}.")]
    return f"of {root} there are {', '.join(below)}" if below else f"rules speak of {', '.join(known)}"


def _mixed(types: str) -> str:
    if "int" in types and "double" in types:
        return "int and double do not mix: write 4.0 for a double, or convert with double(...)"
    return ""
