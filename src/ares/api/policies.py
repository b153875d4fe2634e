"""Policies: what is wrong with one, and what it would have made of recent jobs."""

from ares.model.base import Record, Shown
from ares.model.policy import Mistake


class Located(Record, frozen=True):
    """A mistake in one of a policy's expressions: `field` is `when`, or `set.FIELD`."""

    field: str
    message: str
    line: int = 1
    column: int = 1
    hint: str = ""

    @property
    def words(self) -> str:
        return f"{self.field}, {Mistake(message=self.message, line=self.line, column=self.column, hint=self.hint)}"


class NameView(Shown, frozen=True):
    """Something a rule may speak of."""

    name: str
    type: str
    about: str


class CheckAnswer(Shown, frozen=True):
    """`ok` when it could be saved; else what is wrong and where. `names` is all that rules may speak of."""

    ok: bool
    mistakes: tuple[Located, ...]
    names: tuple[NameView, ...]


class Tried(Record, frozen=True):
    """What a policy would have made of recent jobs, had it been in force."""

    policy: str
    action: str
    looked_at: int
    matched: int
    # Jobs it has no answer for: they would have been refused.
    failed: int
    text: str
    jobs: tuple[str, ...] = ()
    failed_jobs: tuple[str, ...] = ()
    why_failed: str = ""
