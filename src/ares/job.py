"""For code that runs inside a job: who am I, how far am I, what came out.

    from ares import job

    job.id, job.attempt, job.fence        # read from the environment when used
    job.progress(0.4, "epoch 4 of 10")
    job.result({"loss": 0.12})
    open(f"{job.output_dir}/model.pt", "wb")  # files left there are handed over when the job succeeds
    job.world().rank, job.world().size    # of a gang: who takes part now
    job.on_resize(rebuild)                # called with the new world

Standard library only, so that it can be imported in any job's environment.
"""

import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

RESULT_BYTES_MAX = 64 * 1024
MESSAGE_CHARS_MAX = 1000

# Read when used, see __getattr__.
id: str  # noqa: A001
attempt: int
fence: str
tenant: str
node: str
workdir: str
output_dir: str
rank: int
local_rank: int
world_size: int
array_id: str | None
array_index: int | None

_READ: dict[str, tuple[str, Callable[[str], Any]]] = {
    "id": ("ARES_JOB_ID", str),
    "attempt": ("ARES_ATTEMPT", int),
    "fence": ("ARES_FENCE", str),
    "tenant": ("ARES_TENANT", str),
    "node": ("ARES_NODE", str),
    "workdir": ("ARES_WORKDIR", str),
    "output_dir": ("ARES_OUTPUT_DIR", str),
    "rank": ("RANK", int),
    "local_rank": ("LOCAL_RANK", int),
    "world_size": ("WORLD_SIZE", int),
}
# None where the job is not part of an array.
_READ_OPTIONAL: dict[str, tuple[str, Callable[[str], Any]]] = {
    "array_id": ("ARES_ARRAY_ID", str),
    "array_index": ("ARES_ARRAY_INDEX", int),
}


class Peer(NamedTuple):
    """One rank of a gang. `id` stays the same for as long as the attempt runs."""

    id: int
    node: str
    address: str


class World(NamedTuple):
    """Who takes part in a gang. `rank` and `size` change with every generation."""

    generation: int
    rank: int
    size: int
    master_addr: str
    master_port: int
    peers: tuple[Peer, ...]


class NotInJob(RuntimeError):
    """This process was not started by Ares as part of a job."""


def in_job() -> bool:
    """Whether Ares started this process as part of a job."""
    return bool(os.environ.get("ARES_JOB_ID"))


def progress(fraction: float | None, message: str = "") -> None:
    """Says how far the job is: from 0 to 1, or None where only the message is known."""
    if fraction is not None and not 0.0 <= fraction <= 1.0:
        raise ValueError(f"progress is {fraction!r}, but has to be between 0 and 1, or None")
    if len(message) > MESSAGE_CHARS_MAX:
        raise ValueError(f"the message has {len(message)} characters; at most {MESSAGE_CHARS_MAX} are kept")
    known = None if fraction is None else float(fraction)
    _write("ARES_PROGRESS_FILE", json.dumps({"fraction": known, "message": message}).encode())


def result(value: Any) -> None:
    """Sets the job's result, any JSON value up to 64 KiB. It counts when the job succeeds; a later call replaces it."""
    try:
        data = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the result is not a JSON value: {error}") from error
    if len(data) > RESULT_BYTES_MAX:
        raise ValueError(f"the result has {len(data)} bytes of JSON; at most {RESULT_BYTES_MAX} are kept")
    _write("ARES_RESULT_FILE", data)


def world() -> World:
    """The gang as it is now; a job without a gang is a world of its own. To poll: compare generations."""
    if "ARES_WORLD_FILE" not in os.environ:
        return World(0, _read("rank"), _read("world_size"), "", 0, ())
    with open(_environment("ARES_WORLD_FILE"), "rb") as file:
        told = json.load(file)
    peers = tuple(Peer(peer["rank"], peer["node"], peer["address"]) for peer in told["peers"])
    return World(
        told["generation"], told["rank"], told["worldSize"], told["masterAddr"], told["masterPort"], peers
    )  # fmt: skip


def on_resize(callback: Callable[[World], object]) -> None:
    """Calls back with the new world whenever the gang has grown or shrunk. Call it from the main thread, and before
    `world`: what changes in between is then not missed."""
    name = os.environ.get("ARES_RESIZE_SIGNAL", "")
    if not name:
        raise NotInJob("ARES_RESIZE_SIGNAL is not set: submit the job with gang.resizeSignal, such as SIGUSR2")
    signal.signal(signal.Signals[name], lambda _number, _frame: callback(world()))


def _write(variable: str, data: bytes) -> None:
    """Whole or not at all: whoever reads the file never sees half of it."""
    path = _environment(variable)
    draft = f"{path}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        with open(draft, "wb") as file:
            file.write(data)
        os.replace(draft, path)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def _environment(variable: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        raise NotInJob(
            f"{variable} is not set: this process was not started by Ares. Submit it with `ares submit -- ...`, "
            "or ask ares.job.in_job() first."
        )
    return value


def _read(name: str) -> Any:
    variable, read = _READ[name]
    return _parsed(variable, _environment(variable), read)


def __getattr__(name: str) -> Any:
    if name in _READ:
        return _read(name)
    if name in _READ_OPTIONAL:
        _environment("ARES_JOB_ID")
        variable, read = _READ_OPTIONAL[name]
        text = os.environ.get(variable, "")
        return _parsed(variable, text, read) if text else None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _parsed(variable: str, text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise NotInJob(f"{variable} is {text!r}, which Ares never sets") from error


def __dir__() -> list[str]:
    return sorted([*globals(), *_READ, *_READ_OPTIONAL])
