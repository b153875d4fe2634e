"""Policies: rules over submitted jobs that are data, checked when they are saved."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import LabelValue, Note, Record, Slug

# What happens to a job for which the rule is true: it is refused, taken with a warning, gets what it left
# unset, or is taken and an alert is raised.
Action = Literal["reject", "warn", "set", "alert"]
# What an expression gives.
Type = Literal[
    "bool", "int", "double", "string", "timestamp", "list(string)", "map(string, string)", "map(string, int)"
]
EXPRESSION_CHARS_MAX = 2000
SETS_MAX = 16
# Written by people, and read by a compiler: bounded before it gets there.
Expression = Annotated[
    str, Meta(min_length=1, max_length=EXPRESSION_CHARS_MAX, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$(?!\n)")
]
FieldPath = Annotated[str, Meta(min_length=1, max_length=160)]


class Policy(Record, frozen=True):
    """A rule. `when` and the values of `set` are CEL; `message` is shown as it stands."""

    name: Slug
    when: Expression
    action: Action
    message: LabelValue = ""
    # For action "set": fields that the submitter left out, and what they become.
    set: Annotated[dict[FieldPath, Expression], Meta(max_length=SETS_MAX)] = {}
    enabled: bool = True


class PolicyRecord(Policy, frozen=True):
    """A version of a policy. Without a tenant it is for everybody."""

    version: int = 0
    tenant: str = ""
    by: str = ""
    at: float = 0.0
    note: Note = ""


class Mistake(Record, frozen=True):
    """Lines and columns begin with 1."""

    message: str
    line: int = 1
    column: int = 1
    hint: str = ""

    def __str__(self) -> str:
        said = f"line {self.line}, column {self.column}: {self.message}"
        return f"{said}; {self.hint}" if self.hint else said
