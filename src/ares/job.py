"""For code that runs inside a job: who am I, how far am I, what came out.

    from ares import job

    job.id, job.attempt, job.fence        # read from the environment when used
    job.progress(0.4, "epoch 4 of 10")
    job.result({"loss": 0.12})
    open(f"{job.output_dir}/model.pt", "wb")  # files left there are handed over when the job succeeds
    open(f"{job.input_dir('data')}/train.csv")  # of a job that was submitted with --input data=ares://datasets/NAME
    job.world().rank, job.world().size    # of a gang: who takes part now
    job.on_resize(rebuild)                # called with the new world
    job.submit(["python", "part.py"], memory="4G")  # another job; this one was submitted with --children N
    folder = job.restore()                # the checkpoint to go on from; None: begin anew
    if job.checkpoint_due():              # of a job that was submitted with --checkpoint
        job.checkpoint(b"...", step=100)  # bytes, a file or a directory; it is kept while the job goes on

Standard library only, so that it can be imported in any job's environment.
"""

import json
import os
import re
import signal
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ares.job_checkpoints import CheckpointLost, checkpoint, checkpoint_dir, checkpoint_due, restore

RESULT_BYTES_MAX = 64 * 1024
MESSAGE_CHARS_MAX = 1000

# Of the module beside this one.
_CHECKPOINTS = (CheckpointLost, checkpoint, checkpoint_dir, checkpoint_due, restore)

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


class SubmitRefused(RuntimeError):
    """The job was not made. `code` says why to programs, `fix` what to do to people."""

    def __init__(self, code: str, message: str, fix: str = "") -> None:
        super().__init__(f"{message}; {fix}" if fix else message)
        self.code, self.message, self.fix = code, message, fix


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


def input_dir(name: str) -> str:
    """The directory of an input, by the name that the job gives it. Raises LookupError when there is none."""
    path = os.path.join(os.environ.get("ARES_INPUTS_DIR", ""), name)
    if "ARES_INPUTS_DIR" not in os.environ or "/" in name or not os.path.isdir(path):
        raise LookupError(f"the job has no input {name!r}; submit it with --input {name}=ares://datasets/NAME")
    return path


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


def submit(
    command: Sequence[str],
    *,
    name: str | None = None,
    cpus: float | None = None,
    memory: str | None = None,
    gpus: int | None = None,
    time: str | None = None,
    env: Mapping[str, str] | None = None,
    after: str | Sequence[str] = (),
    call: int | None = None,
    detached: bool = False,
    spec: Mapping[str, Any] | None = None,
) -> str:
    """Submits another job and returns its id. It starts with this job's files, and is cancelled with this job unless
    it is detached.

    Calls are numbered from 1 in the order they are made: a repeated attempt that makes the same calls gets the same
    jobs. Where the order may differ, give each job its number by `call`. `spec` has further fields as the API names
    them. The job needs `--children N` itself."""
    asked: dict[str, Any] = {**(spec or {}), "command": list(command)}
    resources = dict(asked.get("resources", {}))
    resources |= {} if cpus is None else {"cpuMilli": round(cpus * 1000)}
    # Without a word on memory it gets the share of its CPUs or GPUs.
    said_mib = resources.get("memoryMib", 0)
    resources["memoryMib"] = said_mib if memory is None else _amount("memory", memory, _MEBIBYTES)
    resources |= {} if gpus is None else {"gpus": gpus}
    said: dict[str, Any] = {"name": name, "resources": resources or None, "env": None if env is None else dict(env)}
    said["timeLimitS"] = None if time is None else _amount("time", time, _SECONDS)
    asked |= {key: value for key, value in said.items() if value is not None}
    needs = [_need(text) for text in ([after] if isinstance(after, str) else after)]
    asked |= {"needs": [*asked.get("needs", ()), *needs]} if needs else {}
    return submit_spec(asked, call, detached)["job"]


def submit_spec(spec: Mapping[str, Any], call: int | None = None, detached: bool = False) -> dict[str, Any]:
    """Submits a job as the API has it. The answer has `job` and `replayed`."""
    if not os.environ.get("ARES_SUBMIT_SOCKET"):
        _environment("ARES_JOB_ID")
        raise SubmitRefused(
            "not-allowed", "this job may submit no jobs", "submit it with `ares submit --children N`; of a gang, rank 0"
        )
    wish = json.dumps({"spec": spec, "call": call, "detached": detached}).encode()
    try:
        answer = json.loads(_asked(_environment("ARES_SUBMIT_SOCKET"), wish))
    except (OSError, EOFError) as error:
        raise SubmitRefused(
            "store-unavailable", f"no answer came: {error}", "make the same call again, with its number"
        ) from error
    if answer.get("code"):
        raise SubmitRefused(answer["code"], answer.get("message", ""), answer.get("fix", ""))
    return {"job": answer["job"], "replayed": answer.get("replayed", False)}


_LENGTH = struct.Struct("!I")
_MEBIBYTES = {"M": 1, "G": 1024, "T": 1024 * 1024}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AFTER = {"ok": "success", "fail": "failure", "any": "end", "start": "start"}


def _amount(what: str, text: str, units: Mapping[str, int]) -> int:
    match = re.fullmatch(rf"(\d+(?:\.\d+)?)([{''.join(units)}])(?:i?B?)", text)
    if match is None:
        raise ValueError(f"{what} is {text!r}; write a number and one of {', '.join(units)}, such as 4{[*units][1]}")
    return max(1, round(float(match[1]) * units[match[2]]))


def _need(text: str) -> dict[str, str]:
    on, _, of = text.partition(":")
    if on not in _AFTER or not of:
        raise ValueError(f"after has {text!r}; write it like ok:ID, fail:ID, any:ID or start:ID")
    return {"job": of, "on": _AFTER[on]}


def _asked(path: str, wish: bytes) -> bytes:
    folder, name = os.path.split(path)
    directory = os.open(folder, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            # By way of the directory: the name of a socket has at most 107 bytes.
            door.connect(path if len(path) < 100 else f"/proc/self/fd/{directory}/{name}")
            door.sendall(_LENGTH.pack(len(wish)) + wish)
            (size,) = _LENGTH.unpack(_received(door, _LENGTH.size))
            return _received(door, size)
    finally:
        os.close(directory)


def _received(door: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        data = door.recv(size - len(found))
        if not data:
            raise EOFError("the agent hung up; it takes 4 calls at once")
        found += data
    return found


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
