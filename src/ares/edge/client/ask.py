"""From what a person writes to a `JobSpec`: the API's own fields, and a few friendlier ones with units.

The keyword arguments of `Client.submit`, the keys of a job file and the flags of `ares submit` all come through here.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypedDict, cast, get_args

import msgspec
from msgspec import structs

from ares.edge.client import units
from ares.edge.client.errors import InvalidSpec
from ares.model.job import Effects, JobSpec, Priority, Resources, Restart, RetryPolicy, Warn, WarnSignal

RawSpec = dict[str, Any]


class Ask(TypedDict, total=False):
    """Keyword arguments that describe a job."""

    command: Sequence[str]
    script: str
    name: str
    cpus: float | str
    memory: str
    gpus: int
    gpu_model: str
    env: Mapping[str, str]
    workdir: str
    priority: Priority
    effects: Effects
    restart: Restart
    retries: int
    time: str
    signal: str
    grace: str
    lease: str
    labels: Mapping[str, str]
    selector: Mapping[str, str]
    array: str


def _same(value: object) -> object:
    return value


def _shell(value: object) -> list[str]:
    return ["/bin/sh", "-c", str(value)]


# Friendlier key -> where it goes in the API's JobSpec, and how it is read.
FRIENDLY: Mapping[str, tuple[tuple[str, ...], Callable[[Any], object]]] = {
    "script": (("command",), _shell),
    "cpus": (("resources", "cpuMilli"), units.cpu_milli),
    "memory": (("resources", "memoryMib"), units.memory_mib),
    "gpus": (("resources", "gpus"), _same),
    "gpuModel": (("resources", "gpuModel"), _same),
    "retries": (("retry", "limit"), _same),
    "time": (("timeLimitS",), units.seconds),
    "signal": (("warn",), units.warning),
    "grace": (("graceS",), units.seconds),
    "lease": (("leaseS",), units.seconds),
}
_NESTED: Mapping[str, type[msgspec.Struct]] = {"resources": Resources, "retry": RetryPolicy, "warn": Warn}


def job_spec(**ask: Any) -> JobSpec:
    """A checked JobSpec from keyword arguments (see `Ask`)."""
    return spec_from({_camel(key): value for key, value in ask.items()})


def spec_from(*layers: Mapping[str, object]) -> JobSpec:
    """A checked JobSpec from the keys of a job file; later layers override earlier ones."""
    raw: RawSpec = {}
    for layer in layers:
        raw = _overlay(raw, expand(layer))
    if isinstance(raw.get("command"), str):
        raise InvalidSpec(
            "command is text, but has to be a list of arguments",
            fix='write command: [python, train.py], or script: "..." for a line of shell',
        )
    if not raw.get("command"):
        raise InvalidSpec("no command is given", fix="write it after --, or as command: [...] in the file")
    try:
        spec = msgspec.convert(raw, JobSpec)
    except msgspec.ValidationError as error:
        raise _explain(error) from error
    if spec.warn is not None and spec.time_limit_s is None:
        raise InvalidSpec("a signal ahead of the time limit needs a time limit", fix="add time, such as 2h")
    return spec


def expand(asked: Mapping[str, object]) -> RawSpec:
    """Puts the friendlier keys where the API has them. Unknown keys, and one value given twice, are refused."""
    _refuse_unknown("", asked, (*_names(JobSpec), *FRIENDLY))
    raw: RawSpec = {key: _plain(key, value) for key, value in asked.items() if key not in FRIENDLY}
    for key, value in asked.items():
        if key not in FRIENDLY:
            continue
        path, read = FRIENDLY[key]
        inner = raw if len(path) == 1 else cast("RawSpec", raw.setdefault(path[0], {}))
        if path[-1] in inner:
            raise InvalidSpec(f"{key} and {'.'.join(path)} are both given", fix=f"keep only {key}")
        inner[path[-1]] = read(value)
    return raw


def _overlay(below: RawSpec, above: RawSpec) -> RawSpec:
    """Maps are joined, other values replaced."""
    joined = {**below, **above}
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(below.get(key), Mapping):
            joined[key] = {**below[key], **cast("Mapping[str, object]", value)}
    return joined


def _plain(key: str, value: object) -> object:
    nested = _NESTED.get(key)
    if nested is None:
        return value
    if not isinstance(value, Mapping):
        raise InvalidSpec(
            f"{key}: expected object, got {type(value).__name__}", fix=f"it has the keys {', '.join(_names(nested))}"
        )
    inner = cast("Mapping[str, object]", value)
    _refuse_unknown(f"{key}.", inner, _names(nested))
    return dict(inner)


def _refuse_unknown(prefix: str, given: Mapping[str, object], known: Iterable[str]) -> None:
    names = sorted(known)
    for key in given:
        if key not in names:
            close = get_close_matches(str(key), names, n=1)
            known_keys = ", ".join(prefix + name for name in names)
            fix = f"did you mean {prefix}{close[0]}?" if close else f"known keys: {known_keys}"
            raise InvalidSpec(f"unknown key {prefix}{key}", fix=fix)


def _names(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in structs.fields(struct))


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


_FORMS = {
    "name": "letters, digits, spaces and . _ : / @ + - only, the first a letter or a digit",
    "workdir": "give an absolute path on the machine the job runs on",
    "env": "names of variables are letters, digits and _, the first no digit; no value holds a null byte",
    "labels": "keys are letters, digits and . _ / - between them; no value holds control characters",
    "array": "write it like 0-9, 1,5,7-20 or 0-100:10",
}


def _explain(error: msgspec.ValidationError) -> InvalidSpec:
    text, _, path = str(error).partition(" - at ")
    # A pattern helps nobody; what is allowed is said below.
    text = re.sub(r" matching regex .*", " of another form", text)
    where = path.removeprefix("`key` in ").strip("`").removeprefix("$").removeprefix(".") or "the job"
    fix = ""
    if where.startswith(("env", "labels", "selector")) and "Expected `str`" in text:
        fix = 'values are text: put the value in quotes, as in "3"'
    fix = _FORMS.get(where.partition("[")[0], fix) if "of another form" in text else fix
    choices = {"priority": Priority, "effects": Effects, "restart": Restart, "warn.signal": WarnSignal}.get(where)
    if choices is not None:
        fix = f"one of {', '.join(get_args(choices))}"
    return InvalidSpec(f"{where}: {text[:1].lower()}{text[1:]}".replace("`", ""), fix=fix)
