"""What is wrong with an expression, where, and what was probably meant."""

import re
from difflib import get_close_matches
from typing import Final

from ares.core.policy.names import FUNCTIONS, NAMES
from ares.model.policy import Mistake

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
