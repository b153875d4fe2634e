"""What a flow asks its transport to do, one value per step.

A flow is a generator that decides; a transport (blocking or async) obeys. So every rule on retrying, resuming and
waiting is written once. `Send` and `Open` are answered with a `Reply` or `Broken`, `Read` with bytes (empty at the
end) or `Broken`, `Now` with seconds, the others with None.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ares.edge.client.calls.calls import Request

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Broken:
    """No answer. `connect`: the request never left; `sent`: it may have arrived; `silent`: a stream went quiet."""

    kind: Literal["connect", "sent", "silent"]
    detail: str


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to a server, read the whole answer."""

    request: Request
    to: str


@dataclass(frozen=True, slots=True)
class Open:
    """Send a request and leave its answer open, in place of the one open before. An error answer is read whole."""

    request: Request
    to: str
    silence_s: float


@dataclass(frozen=True, slots=True)
class Read:
    """The next bytes of the open answer."""


@dataclass(frozen=True, slots=True)
class Close:
    """Give up the open answer, if there is one."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Now:
    """Read the monotonic clock."""


@dataclass(frozen=True, slots=True)
class Emit:
    """Hand a value to the caller that iterates."""

    value: Any


Step = Send | Open | Read | Close | Pause | Now | Emit
Flow = Generator[Step, Any, T]
