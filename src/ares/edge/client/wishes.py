"""Wishes about devices, places and times as people write them in a flag or a line of a job file.

Each reader takes the short text; a mapping or a list in the API's own form goes through as it is.
"""

import os
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast, get_args

import msgspec

from ares.core.image.reference import SHIPPED
from ares.edge.client import units
from ares.edge.client.errors import InvalidSpec
from ares.model.checkpoint import CheckpointPolicy, RestoreFrom
from ares.model.job import (
    PRIORITIES,
    TOPOLOGY_LEVELS,
    DataInput,
    Gang,
    Image,
    JobTerm,
    Need,
    NeedsTimeout,
    NodeTerm,
    Preemption,
    PythonEnvironment,
    Resources,
    RetryPolicy,
    RuntimeWish,
    Toleration,
    TopologyWish,
    Warn,
    WarnSignal,
)
from ares.model.secret import SecretRef

_TERM = re.compile(
    r"(?P<absent>!)?\s*(?P<key>[A-Za-z0-9][A-Za-z0-9._/-]*)\s*"
    r"(?:(?P<op>not[ -]?in|in|==?|!=|>|<)\s*\(?(?P<values>[^()]*)\)?)?",
    re.ASCII,
)
_OPS = {"in": "in", "=": "in", "==": "in", "!=": "not-in", ">": "gt", "<": "lt"}
_TERM_FORMS = 'write it like "zone in a,b", "zone not in c", "disk=ssd", "gpu-memory > 40", "zone" or "!zone"'
_NEAR_FORMS = "write it like app=web, app=web@rack, or app=web@zone:preferred"
_SECRET_FORMS = (
    "write it like db-password, db-password:PGPASSWORD, tls-key:file=server.pem or login:registry=registry.lab:5000"
)
_JOB_LEVELS = TOPOLOGY_LEVELS[1:]


def milli(value: object) -> int:
    """A share of each GPU in thousandths: 0.5, or 50%."""
    text = str(value).strip()
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text, re.ASCII)
    share = -1.0 if found is None else float(found[1]) * (10 if found[2] else 1000)
    if not 1 <= share <= 1000:
        raise InvalidSpec(f"GPU share {text!r} is not between 0.001 and 1", fix="write it like 0.5 or 50%")
    return round(share)


def counts(value: object) -> object:
    """Named amounts: tpu-v4=2, or a name alone for one."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    found: dict[str, int] = {}
    for text in several(value):
        name, _, count = text.partition("=")
        if not name or not re.fullmatch(r"\d*", count, re.ASCII) or text.endswith("="):
            raise InvalidSpec(f"{text!r} is not a name and a number", fix="write it like tpu-v4=2")
        found[name] = int(count or 1)
    return found


def priority(value: object) -> object:
    """A name, or its number: 0 is the most important."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if not 0 <= value < len(PRIORITIES):
        raise InvalidSpec(f"priority {value} is not 0 to 4", fix=f"one of {', '.join(PRIORITIES)}, or 0 to 4")
    return PRIORITIES[value]


def cost(value: object) -> object:
    """A number, or the text of one."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        raise InvalidSpec(f"cost {value!r} is no number", fix="write it like 12.50") from None


def topology(value: object) -> object:
    """rack, or rack:required."""
    if not isinstance(value, str):
        return value
    level, _, how = value.partition(":")
    if level not in TOPOLOGY_LEVELS or how not in ("", "required", "preferred"):
        levels = ", ".join(TOPOLOGY_LEVELS)
        raise InvalidSpec(f"topology {value!r} is not a level", fix=f"one of {levels}, as in rack or rack:required")
    return {"level": level, "required": how == "required"}


def toleration(text: str) -> object:
    """key, or key=value."""
    key, equals, value = text.partition("=")
    return {"key": key, "value": value} if equals else {"key": key}


def prefer(text: str) -> object:
    return {**_term(text), "required": False}


def require(text: str) -> object:
    return _term(text)


def _term(text: str) -> dict[str, Any]:
    found = _TERM.fullmatch(text.strip())
    if found is None or (found["absent"] and found["op"]):
        raise InvalidSpec(f"{text!r} is no condition on a node's labels", fix=_TERM_FORMS)
    if found["op"] is None:
        return {"key": found["key"], "op": "absent" if found["absent"] else "exists"}
    values = [part.strip() for part in found["values"].split(",") if part.strip()]
    if not values:
        raise InvalidSpec(f"{text!r} compares with nothing", fix=_TERM_FORMS)
    return {"key": found["key"], "op": _OPS.get(found["op"], "not-in"), "values": values}


def near(text: str) -> object:
    return _jobs(text, away=False)


def away(text: str) -> object:
    return _jobs(text, away=True)


def _jobs(text: str, *, away: bool) -> dict[str, Any]:
    who, at, where = text.partition("@")
    level, _, how = where.partition(":")
    pairs = [part.partition("=") for part in who.split(",")]
    if (at and level not in _JOB_LEVELS) or how not in ("", "required", "preferred"):
        raise InvalidSpec(f"{text!r} names no level", fix=f"one of {', '.join(_JOB_LEVELS)} after the @; {_NEAR_FORMS}")
    if not all(key and equals for key, equals, _ in pairs):
        raise InvalidSpec(f"{text!r} names no labels of jobs", fix=_NEAR_FORMS)
    return {
        "labels": {key: value for key, _, value in pairs},
        "level": level or "node",
        "away": away,
        "required": how != "preferred",
    }


def inputs(value: object) -> object:
    """Data by name: data=ares://datasets/imagenet, which is staged, with :copy behind it for a copy of one's own; or
    its size, imagenet=120G, where it lies near some nodes already. Or a mapping of the same."""
    if isinstance(value, Mapping):
        return [_input(name, str(what)) for name, what in cast("Mapping[str, Any]", value).items()]
    listed = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
    if any(isinstance(wish, Mapping) for wish in listed):
        return listed
    pairs = [text.partition("=") for text in several(listed)]
    if not all(name and what for name, _, what in pairs):
        fix = "write it like data=ares://datasets/imagenet, or imagenet=120G for data that lies near nodes"
        raise InvalidSpec(f"input {value!r} is not a name and a dataset, or a size", fix=fix)
    return [_input(name, what) for name, _, what in pairs]


def _input(name: str, what: str) -> dict[str, Any]:
    if "://" not in what:
        return {"name": name, "sizeMib": units.memory_mib(what)}
    for mode in ("cache", "copy", "stream"):
        if what.endswith(f":{mode}"):
            return {"name": name, "from": what.removesuffix(f":{mode}"), "mode": mode}
    return {"name": name, "from": what}


def deadline(value: object) -> float:
    return moment(value, "deadline")


def moment(value: object, what: str = "begin") -> float:
    """A time from now (2h, +2h), or a moment: the next 18:00, or 2026-12-01T18:00, local unless it says otherwise."""
    if isinstance(value, datetime):
        return value.timestamp()
    text = str(value).strip()
    try:
        return time.time() + units.seconds(text.removeprefix("+"))
    except InvalidSpec:
        pass
    if re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d", text, re.ASCII):
        return _next(text)
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        fix = "write it like 2h or 1d12h from now, 18:00, or 2026-12-01T18:00+01:00"
        raise InvalidSpec(f"{what} {text!r} is neither a duration nor a moment", fix=fix) from None


_AFTER = {"ok": "success", "fail": "failure", "any": "end", "start": "start"}


def after(text: str) -> dict[str, str]:
    """ok:7k2m: that job must have succeeded before this one begins. fail, any and start likewise."""
    on, _, job = text.partition(":")
    if on not in _AFTER or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", job, re.ASCII):
        raise InvalidSpec(f"{text!r} names no job to wait for", fix="write it like ok:ID, fail:ID, any:ID or start:ID")
    return {"job": job, "on": _AFTER[on]}


def needs_timeout(value: object) -> object:
    """6h, or {after: 6h, then: fail}."""
    if isinstance(value, str):
        return {"afterS": units.seconds(value)}
    if not isinstance(value, Mapping):
        return value
    given = cast("Mapping[str, object]", value)
    rest = {key: said for key, said in given.items() if key != "after"}
    return {"afterS": units.seconds(str(given["after"])), **rest} if "after" in given else rest


def _next(text: str) -> float:
    """The next time that clocks here show this."""
    hour, minute = map(int, text.split(":"))
    now = datetime.now(UTC).astimezone()
    today = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return (today if today > now else today + timedelta(days=1)).timestamp()


def runtimes(value: object) -> dict[str, float]:
    """Run times by GPU model: A100=2h."""
    if isinstance(value, Mapping):
        return {model: units.seconds(text) for model, text in cast("Mapping[str, str | float]", value).items()}
    found: dict[str, float] = {}
    for text in several(value):
        model, _, runs = text.partition("=")
        if not model.strip() or not runs:
            raise InvalidSpec(f"{text!r} is not a GPU model and a run time", fix="write it like A100=2h")
        found[model.strip()] = units.seconds(runs)
    return found


def signal(value: object) -> str:
    """USR1 or SIGUSR1."""
    name = f"SIG{str(value).strip().upper().removeprefix('SIG')}"
    if name not in get_args(WarnSignal):
        raise InvalidSpec(f"{value!r} is no signal for this", fix=f"one of {', '.join(get_args(WarnSignal))}")
    return name


def environment(value: object) -> object:
    """As the API has it, or as `ship_python` gave it."""
    return msgspec.to_builtins(value) if isinstance(value, PythonEnvironment) else value


def number(text: str) -> object:
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else text


def several(value: object) -> list[str]:
    """One text or several."""
    listed = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
    if not all(isinstance(wish, str) for wish in listed):
        raise InvalidSpec(f"{value!r} is not text", fix="write one text, or a list of texts")
    return [str(wish) for wish in listed]


def image(value: object) -> object:
    """python:3.12 as it is written everywhere, or a text with its kind before it."""
    if not isinstance(value, str):
        return value
    if value.startswith(("docker://", "dir:", *(f"{kind}:" for kind in SHIPPED))):
        return {"ref": value}
    if value.startswith(("/", ".", "~")) or os.path.exists(value):
        kind = "oci" if os.path.isdir(value) else "oci-archive"
        fix = f"write {kind}:{value} for one of yours, dir:/... for a directory of the machine it runs on"
        raise InvalidSpec(f"image {value!r} is a path, and it is not said of what", fix=fix)
    return {"ref": f"docker://{value}"}


def with_run_time(asked: Mapping[str, object]) -> Mapping[str, object]:
    """`runtime` is what starts the job's processes when it is a name or an object, and how long the job will run when
    it is a time; both may be given. No name begins with a digit."""
    said = asked.get("runtime")
    listed = cast("Sequence[object]", said) if isinstance(said, list | tuple) else (said,)
    times = [value for value in listed if isinstance(value, int | float | str) and not _named(value)]
    kinds = [value for value in listed if value not in times]
    if len(times) > 1 or len(kinds) > 1 or (times and "expected" in asked):
        raise InvalidSpec("runtime is given twice", fix="give one kind, such as torch, and one time, such as 2h")
    rest = {key: value for key, value in asked.items() if key != "runtime"}
    rest |= {"runtime": kinds[0]} if "runtime" in asked and kinds else {}
    return {**rest, "expected": times[0]} if times else rest


def _named(value: object) -> bool:
    return isinstance(value, str) and not value.strip()[:1].isdigit()


def check_runtime(said: object) -> None:
    """How a runtime starts processes says nothing without one."""
    if isinstance(said, Mapping) and "kind" not in said:
        fix = "add the kind: --runtime torch, mpi, ray or julia, or runtime: {kind: torch, ...} in a file"
        keys = ", ".join(sorted(str(key) for key in cast("Mapping[object, object]", said))) or "an empty runtime"
        raise InvalidSpec(f"{keys}: said of a runtime, and no runtime is named", fix=fix)


def runtime(value: object) -> object:
    """torch, or an object of the API."""
    return {"kind": value} if isinstance(value, str) else value


def procs(value: object) -> object:
    """A number of processes, or gpus: one for each GPU."""
    if isinstance(value, int) or value == "gpus":
        return value
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    raise InvalidSpec(f"procs {value!r} is no number of processes", fix="write a number, or gpus for one a GPU")


def secrets(value: object) -> object:
    """db-password, db-password:PGPASSWORD, tls-key:file=server.pem, or login:registry=registry.lab:5000."""
    if isinstance(value, Mapping):
        raise InvalidSpec("secrets are a list", fix=_SECRET_FORMS)
    listed = several(value) if isinstance(value, str) else value
    if not isinstance(listed, list | tuple):
        return value
    return [_secret(wish) if isinstance(wish, str) else wish for wish in cast("Sequence[object]", listed)]


def _secret(text: str) -> dict[str, str]:
    name, _, target = text.partition(":")
    if not name or (":" in text and target in ("", "file=", "registry=")):
        raise InvalidSpec(f"{text!r} names no secret", fix=_SECRET_FORMS)
    if target.startswith("file="):
        return {"name": name, "file": target.removeprefix("file=")}
    if target.startswith("registry="):
        return {"name": name, "registry": target.removeprefix("registry=")}
    return {"name": name, "env": target or re.sub(r"[.-]", "_", name).upper()}


# How a value is written, for fields whose patterns would not help a person.
FORMS: Mapping[str, str] = {
    "team": "lower-case letters, digits and - between them",
    "name": "letters, digits, spaces and . _ : / @ + - only, the first a letter or a digit",
    "workdir": "chdir is an absolute path on the machine the job runs on",
    "env": "names of variables are letters, digits and _, the first no digit; no value holds a null byte",
    "labels": "keys are letters, digits and . _ / - between them; no value holds control characters",
    "array": "write it like 0-9, 1,5,7-20 or 0-100:10",
}


# ---- checkpoints


def checkpoint(value: object) -> object:
    """true, or {keep: {last: 2, every: 6h, best: {metric: loss}}, interval: 10m, required: true}."""
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, Mapping):
        return value
    asked = dict(cast("Mapping[str, Any]", value))
    if "interval" in asked:
        asked["intervalS"] = interval(asked.pop("interval"))
    if isinstance(keep := asked.get("keep"), Mapping) and "every" in keep:
        kept = dict(cast("Mapping[str, Any]", keep))
        asked["keep"] = {**kept, "everyS": units.seconds(kept.pop("every"))}
        del asked["keep"]["every"]
    return asked


def interval(value: object) -> float | None:
    """A time, or auto."""
    return None if value in ("auto", None) else units.seconds(cast("str", value))


def restore_from(value: object) -> object:
    """ID, or ID@NUMBER."""
    if not isinstance(value, str):
        return value
    job, at, number_ = value.partition("@")
    if at and not number_.isdecimal():
        raise InvalidSpec(f"{value!r} is not a job and the number of a checkpoint", fix="write it like ID or ID@12")
    return {"job": job, **({"seq": int(number_)} if at else {})}


# ---- fields that have fields of their own: by which names in them are checked

NESTED: Mapping[str, type[msgspec.Struct]] = {
    "resources": Resources, "retry": RetryPolicy, "warn": Warn, "gang": Gang, "topology": TopologyWish,
    "preemption": Preemption, "needsTimeout": NeedsTimeout, "image": Image,
    "python": PythonEnvironment, "runtime": RuntimeWish, "checkpoint": CheckpointPolicy, "restoreFrom": RestoreFrom,
}  # fmt: skip
LISTED: Mapping[str, type[msgspec.Struct]] = {
    "alternatives": Resources, "affinity": NodeTerm, "jobAffinity": JobTerm, "tolerations": Toleration,
    "inputs": DataInput, "secrets": SecretRef, "needs": Need,
}  # fmt: skip
