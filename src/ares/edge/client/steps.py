"""What a flow asks its transport to do, one value per step.

A flow is a generator that decides; a transport (blocking or async) obeys. So every rule on retrying, resuming and
waiting is written once. `Send` and `Open` are answered with a `Reply` or `Broken`, `Read` with bytes (empty at the
end) or `Broken`, `Now` with seconds, the others with None.
"""

from collections.abc import Generator
from typing import Any, Literal, TypeVar

from msgspec import Struct

from ares.edge.client.calls.calls import Request

T = TypeVar("T")


class Broken(Struct, frozen=True):
    """No answer. `connect`: the request never left; `sent`: it may have arrived; `silent`: a stream went quiet."""

    kind: Literal["connect", "sent", "silent"]
    detail: str


class Send(Struct, frozen=True):
    """Send a request to a server, read the whole answer."""

    request: Request
    to: str


class Open(Struct, frozen=True):
    """Send a request and leave its answer open, in place of the one open before. An error answer is read whole."""

    request: Request
    to: str
    silence_s: float


class Read(Struct, frozen=True):
    """The next bytes of the open answer."""


class Close(Struct, frozen=True):
    """Give up the open answer, if there is one."""


class Pause(Struct, frozen=True):
    """Wait."""

    seconds: float


class Now(Struct, frozen=True):
    """Read the monotonic clock."""


class Emit(Struct, frozen=True):
    """Hand a value to the caller that iterates."""

    value: Any


Step = Send | Open | Read | Close | Pause | Now | Emit
Flow = Generator[Step, Any, T]
