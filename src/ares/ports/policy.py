"""The language of policies: expressions are compiled when they are saved and run when a job comes."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from ares.model.base import Record
from ares.model.policy import Mistake, Type

Value = bool | int | float | str


class Failed(Record, frozen=True):
    """The expression has no value for this job, such as a label's that is not there."""

    message: str


class CompiledRule(Protocol):
    """A compiled expression of one type."""

    @property
    def expression(self) -> str: ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the expression reads."""
        ...

    def run(self, values: object) -> Value | Failed: ...


class CompiledRules(Protocol):
    def compile(self, expression: str, wanted: Type) -> CompiledRule | Mistake:
        """Refuses unknown names and wrong types, and what would take long."""
        ...

    def any_of(self, rules: Sequence[CompiledRule]) -> CompiledRule | None:
        """A rule that is False when all of them are; otherwise each must be asked. None: there is no such rule."""
        ...

    def values(self, facts: Mapping[str, object]) -> object:
        """The facts as rules take them: made once for each job."""
        ...
