"""The vocabulary of a history: what was committed, asked, answered, run and broken, in the order it happened.

The world simulator, the chaos tests and `ares chaos` record these; the checkers read nothing else. A history is a
file of JSON lines. Times are reference seconds: virtual in a simulation, of one monotonic clock in a real run.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", gc=False):
    t: float


# ---- the store of record


class Write(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One key of a commit. `value` is the JSON as stored, None when the key was deleted."""

    key: str
    value: str | None
    # How often the key was written since it was created; 0 for a delete.
    version: int = 0


class Commit(_Event, frozen=True, tag="commit"):
    """One revision of the store: everything it changed at once. Several transactions may share one."""

    revision: int
    writes: tuple[Write, ...]
    # Which replica's transaction it was, where that is known.
    by: str = ""


class Restored(_Event, frozen=True, tag="restored"):
    """The store went back to how it was at `revision`; what was committed after that is gone."""

    revision: int


# ---- clients


Verb = Literal["submit", "cancel", "retry", "get", "result", "outputs"]


class Asked(_Event, frozen=True, tag="asked"):
    """A client's call begins. `op` numbers the calls of a history; a client has one call under way at a time."""

    op: int
    client: str
    verb: Verb
    tenant: str
    request: str = ""
    # Of a submission: names its payload, equal for equal ones.
    payload: str = ""
    job: str = ""


class Answered(_Event, frozen=True, tag="answered"):
    """The end of a call. "unknown" means that no answer came, or that the answer does not tell the outcome."""

    op: int
    outcome: Literal["ok", "refused", "unknown"]
    # Why it was refused, such as "request-conflict", "terminal", "queue-full".
    code: str = ""
    job: str = ""
    replayed: bool = False
    # Of "get": what the client was shown.
    phase: str = ""
    seq: int = 0
    # Of "result" and "outputs": what the client was shown, a digest by path; a result's value has the path "" and the
    # digest that `digest_of` gives.
    seen: dict[str, str] = {}


# ---- machines: events that only they can know


class ProcessStarted(_Event, frozen=True, tag="process-started"):
    """A rank of an attempt really runs. `resumed` is the checkpoint it was given: "fence/seq/digest"; `inputs` the
    data that it finds: by the input's name, the digest of a manifest of what is there."""

    node: str
    job: str
    fence: str
    rank: int = 0
    resumed: str = ""
    inputs: dict[str, str] = {}


class Effect(_Event, frozen=True, tag="effect"):
    """A process did something that the outside could see."""

    node: str
    job: str
    fence: str
    rank: int = 0


class ProcessEnded(_Event, frozen=True, tag="process-ended"):
    """It is gone. `how`: "exit 0", "killed", "expired" (by the deadline that its slot keeps), "crash" (of the node)."""

    node: str
    job: str
    fence: str
    rank: int = 0
    how: str = ""


class LogSeen(_Event, frozen=True, tag="log-seen"):
    """A log was read when its attempt had ended and been reported: what its process wrote, what of it is there, and
    whether the log says that something is missing."""

    job: str
    written: int
    kept: int
    told: bool = False


# ---- faults


class Fault(_Event, frozen=True, tag="fault"):
    """A fault was injected, or ended. `who` is a component such as "agent n1", "replica r2" or "store".

    It lasts until the fault of the same kind and component is `over`, or all is healed; one that is over at once,
    such as a lost reply, is recorded once, with `over`."""

    kind: str
    who: str = ""
    # In a person's words, for the story.
    what: str = ""
    over: bool = False


class Frozen(_Event, frozen=True, tag="frozen"):
    """A process was stopped as by SIGSTOP. `who` is as in `Fault`, or "job JOB FENCE" for a job's own process, or
    "node NAME" for a machine with everything on it. Stopping an agent alone stops no job."""

    who: str


class Woken(_Event, frozen=True, tag="woken"):
    who: str


class Lost(_Event, frozen=True, tag="lost"):
    """From now on a node renews nothing: it crashed, is frozen or is cut off. E12 counts from here."""

    node: str


class Back(_Event, frozen=True, tag="back"):
    node: str


class Healed(_Event, frozen=True, tag="healed"):
    """No fault is left and none will come: from here on everything acknowledged must come to its end."""


class Ended(_Event, frozen=True, tag="ended"):
    """The history was watched until here. With `quiet` nothing was left to do."""

    quiet: bool


class Settings(_Event, frozen=True, tag="settings"):
    """First in a history: the bounds that the predicates need."""

    seed: int = 0
    # An attempt ends this long after the renewal it trusts was sent, by its own clock.
    self_fence_s: float = 7.0
    # How much longer a kill may take, and a check after a process was woken.
    kill_s: float = 1.0
    check_s: float = 1.0
    # The rate by which clocks may be wrong.
    drift: float = 0.0
    # From the loss of a node to the decision, and from healing to the end of every job.
    recovery_s: float = 10.0
    liveness_s: float = 600.0
    # Whether the machines' events are complete: without them nothing can be said about processes.
    machines: bool = True


Event = (
    Settings
    | Commit
    | Restored
    | Asked
    | Answered
    | ProcessStarted
    | Effect
    | ProcessEnded
    | LogSeen
    | Fault
    | Frozen
    | Woken
    | Lost
    | Back
    | Healed
    | Ended
)

_encoder = msgspec.json.Encoder()
_canonical = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Event)


def digest_of(value: Any) -> str:
    """Of a result's value as a client was shown it."""
    return hashlib.sha256(_canonical.encode(value)).hexdigest()


def encode(events: Iterable[Event]) -> bytes:
    """The same history gives the same bytes."""
    return _encoder.encode_lines(events)


def read(path: Path) -> Iterator[Event]:
    """Raises msgspec.MsgspecError with the line's number for what is not a history."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield _decoder.decode(line)
            except msgspec.MsgspecError as error:
                raise msgspec.ValidationError(f"{path.name}, line {number}: {error}") from None


class Violation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A broken promise: which, where in the history, and in words with numbers."""

    rule: str
    t: float
    job: str
    what: str
    revision: int = 0


def first_at(violations: Sequence[Violation]) -> Violation | None:
    return min(violations, key=lambda violation: violation.t, default=None)
