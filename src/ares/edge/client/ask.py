"""From what a person writes to a `JobSpec`: the API's own fields, and a few friendlier ones with units.

The keyword arguments of `Client.submit`, the keys of a job file and the flags of `ares submit` all come through here.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import Any, TypedDict, cast, get_args

import msgspec
from msgspec import structs

from ares.edge.client import units, wishes
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.wishes import LISTED, NESTED
from ares.model.isolation import Isolation, Network
from ares.model.job import (
    Effects,
    JobSpec,
    NumaPolicy,
    Priority,
    PythonEnvironment,
    Qos,
    Resources,
    Restart,
    TopologyLevel,
    Unmet,
    WarnSignal,
)

RawSpec = dict[str, Any]


class JobFields(TypedDict, total=False):
    """Keyword arguments that describe a job."""

    command: Sequence[str]
    script: str
    name: str
    cpus: float | str
    memory: str
    gpus: int
    gpu_model: str
    gpu_share: float | str
    gpu_memory: str
    device: str | Sequence[str] | Mapping[str, int]
    alternatives: Sequence[Mapping[str, Any]]
    # Instead of what is asked for first: "gpus=4,gpu-model=A100", or {"gpus": 4, "gpu_model": "A100"}.
    or_: str | Sequence[str | Mapping[str, Any]]
    ranks: int
    min_ranks: int
    per_node: int
    assembly: str
    resize_signal: str
    topology: str | Mapping[str, Any]
    numa: NumaPolicy
    qos: Qos
    licences: Mapping[str, int]
    team: str
    reservation: str
    tolerate: str | Sequence[str]
    require: str | Sequence[str]
    prefer: str | Sequence[str]
    near: str | Sequence[str]
    away: str | Sequence[str]
    residency: Sequence[str]
    on_partition: str
    inputs: Mapping[str, str] | Sequence[Mapping[str, Any]] | Sequence[str]
    deadline: str | datetime
    start_by: str | datetime
    deadline_strict: bool
    sla: str
    # What starts its processes: "torch", "mpi", "ray", or {"kind": "torch", "procs": 4}. A time: how long it will run.
    runtime: str | float | Mapping[str, Any] | Sequence[str]
    procs: int | str
    elastic: bool
    # How long it will run.
    expected: str
    # On which GPU model: {"A100": "2h", "V100": "3h"}, or "A100=2h".
    runtime_on: str | Sequence[str] | Mapping[str, str | float]
    gap_min: str
    checkpoint_signal: str
    checkpoint_wait: str
    # It saves checkpoints: True, or {"keep": {"last": 2, "every": "6h"}, "interval": "10m", "required": True}.
    checkpoint: bool | Mapping[str, Any]
    checkpoint_every: str
    # "ID" or "ID@NUMBER": it goes on from there.
    restore_from: str | Mapping[str, Any]
    preempt: bool
    # The container image it runs in: "python:3.12", "docker://host/name:tag", "oci-archive:FILE", "dir:/DIRECTORY".
    image: str | Mapping[str, Any]
    env: Mapping[str, str]
    # The directory whose files the job starts with, "none" for none. Text from / on is a directory of the machine.
    workdir: str | PathLike[str]
    # A directory of the machine the job runs on.
    chdir: str
    # A file to build an environment from, the directory of one that nodes have, "none"; otherwise the active one.
    python: str | PathLike[str] | PythonEnvironment | Mapping[str, Any]
    # A project that was shipped before: the digest of its manifest.
    project: str
    # A name, or its number: 0 is CRITICAL, 4 is BEST_EFFORT.
    priority: Priority | int
    effects: Effects
    restart: Restart
    retries: int
    oom_factor: float
    oom_max: str
    time: str
    signal: str
    grace: str
    lease: str
    labels: Mapping[str, str]
    selector: Mapping[str, str]
    array: str
    # "NAME", "NAME:VARIABLE" or "NAME:file=FILE" each, or as the API has it.
    secrets: str | Sequence[str] | Sequence[Mapping[str, Any]]
    isolation: Isolation
    network: Network
    # "s3://bucket/key", "sha256:...", or the name of a dataset.
    input_refs: str | Sequence[str]
    # Channels that are told of its end: "ops", "ops:fail", "ops:success".
    notify: str | Sequence[str]
    # What it costs, by the caller: shown beside the server's own estimate, and never used.
    cost_estimate: float
    # Not before then: "2h" from now, "18:00", or a moment.
    begin: str | datetime
    # Until it is released.
    held: bool
    # "ok:ID", "fail:ID", "any:ID" or "start:ID" each; `needs` is the API's own form.
    after: str | Sequence[str]
    needs: Sequence[Mapping[str, Any]]
    # {"after": "6h", "then": "fail"}
    needs_timeout: str | Mapping[str, Any]
    on_impossible: Unmet
    finally_: bool
    # How many jobs it may submit while it runs.
    children: int


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
    "oomFactor": (("retry", "oomMemoryFactor"), float),
    "oomMax": (("retry", "oomMemoryMaxMib"), units.memory_mib),
    "retries": (("retry", "limit"), _same),
    "time": (("timeLimitS",), units.seconds),
    "signal": (("warn",), units.warning),
    "grace": (("graceS",), units.seconds),
    "lease": (("leaseS",), units.seconds),
    "gpuShare": (("resources", "gpuMilli"), wishes.milli),
    "gpuMemory": (("resources", "gpuMemoryMib"), units.memory_mib),
    "device": (("resources", "devices"), wishes.counts),
    "ranks": (("gang", "ranks"), _same),
    "minRanks": (("gang", "minRanks"), _same),
    "perNode": (("gang", "perNode"), _same),
    "assembly": (("gang", "assemblyS"), units.seconds),
    "resizeSignal": (("gang", "resizeSignal"), wishes.signal),
    "deadline": (("deadlineAt",), wishes.deadline),
    "startBy": (("startByAt",), wishes.deadline),
    "expected": (("expectedRuntimeS",), units.seconds),
    "procs": (("runtime", "procs"), wishes.procs),
    "elastic": (("runtime", "elastic"), _same),
    "runtimeOn": (("expectedRuntimesS",), wishes.runtimes),
    "gapMin": (("gapMinS",), units.seconds),
    "checkpointSignal": (("preemption", "checkpointSignal"), wishes.signal),
    "checkpointWait": (("preemption", "waitS"), units.seconds),
    "checkpointEvery": (("checkpoint", "intervalS"), wishes.interval),
    "preempt": (("preemption", "allowed"), _same),
    "costEstimate": (("claimedCost",), wishes.cost),
    "begin": (("beginAt",), wishes.moment),
    "chdir": (("workdir",), _same),
}
# Friendlier keys whose texts are gathered into one list of the API's.
GATHERED: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "require": ("affinity", wishes.require),
    "prefer": ("affinity", wishes.prefer),
    "near": ("jobAffinity", wishes.near),
    "away": ("jobAffinity", wishes.away),
    "tolerate": ("tolerations", wishes.toleration),
    "after": ("needs", wishes.after),
}
# Fields of the API that may also be given in short.
_SHORT: Mapping[str, Callable[[Any], object]] = {
    "topology": wishes.topology,
    "inputs": wishes.inputs,
    "licences": wishes.counts,
    "secrets": wishes.secrets,
    "priority": wishes.priority,
    "inputRefs": wishes.several,
    "needsTimeout": wishes.needs_timeout,
    "notify": wishes.several,
    "image": wishes.image,
    "python": wishes.environment,
    "runtime": wishes.runtime,
    "checkpoint": wishes.checkpoint,
    "restoreFrom": wishes.restore_from,
}
# A directory of the caller's, whose files become the specification's `project`; or, as text from / on, one of
# the machine, as in the specification.
WORKDIR = "workdir"
PYTHON = "python"
# Resources instead of those asked for first. Read last: what they do not say is as in the job.
OR = "or"
# What is said about GPUs belongs together: an alternative that says any of it says all of it.
_GPUS = ("gpus", "gpuModel", "gpuMilli", "gpuMemoryMib")


def job_spec(**ask: Any) -> JobSpec:
    """A checked JobSpec from keyword arguments (see `JobFields`)."""
    return spec_from({_camel(key.rstrip("_")): value for key, value in ask.items()})


def spec_from(*layers: Mapping[str, object]) -> JobSpec:
    """A checked JobSpec from the keys of a job file; later layers override earlier ones."""
    raw: RawSpec = {}
    for layer in layers:
        raw = _overlay(raw, expand(layer))
    # Nothing said of memory asks for the cluster's share.
    if isinstance(raw.setdefault("resources", {}), dict):
        raw["resources"].setdefault("memoryMib", 0)
    raw = _with_alternatives(raw)
    wishes.check_runtime(raw.get("runtime"))
    if isinstance(raw.get("command"), str):
        raise InvalidSpec(
            "command is text, but has to be a list of arguments",
            fix='write command: [python, train.py], or script: "..." for a line of shell',
        )
    if raw.get("image") is not None:
        # The image may have a command of its own.
        raw.setdefault("command", [])
    elif not raw.get("command"):
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
    asked = wishes.with_run_time(asked)
    friendly = (*FRIENDLY, *GATHERED, OR)
    _refuse_unknown("", asked, (*_names(JobSpec), *friendly))
    others = (*friendly, PYTHON) if isinstance(asked.get(PYTHON), str | PathLike) else friendly
    raw: RawSpec = {key: _plain(key, value) for key, value in asked.items() if key not in others}
    if WORKDIR in raw and not of_the_machine(raw[WORKDIR]):
        del raw[WORKDIR]
    raw |= {OR: asked[OR]} if OR in asked else {}
    for key, value in asked.items():
        if key in GATHERED:
            field, of_one = GATHERED[key]
            raw[field] = [*raw.get(field, ()), *(of_one(text) for text in wishes.several(value))]
        if key not in FRIENDLY:
            continue
        path, read = FRIENDLY[key]
        inner = raw if len(path) == 1 else cast("RawSpec", raw.setdefault(path[0], {}))
        if path[-1] in inner:
            raise InvalidSpec(f"{key} and {'.'.join(path)} are both given", fix=f"keep only {key}")
        inner[path[-1]] = read(value)
    return raw


def of_the_machine(workdir: object) -> bool:
    """Whether a `workdir` is a directory of the machine that the job runs on; others are the caller's."""
    return isinstance(workdir, str) and workdir.startswith("/")


def _with_alternatives(raw: RawSpec) -> RawSpec:
    """`or` as the API's `alternatives`, once it is known what the job itself asks for."""
    if OR not in raw:
        return raw
    if "alternatives" in raw:
        raise InvalidSpec("or and alternatives are both given", fix="keep only or")
    given = raw[OR]
    listed = cast("Sequence[Any]", given) if isinstance(given, list | tuple) else (given,)
    rest = {key: value for key, value in raw.items() if key != OR}
    return {**rest, "alternatives": [_alternative(alternative, raw.get("resources", {})) for alternative in listed]}


def _alternative(given: object, first: RawSpec) -> RawSpec:
    """gpus=4,gpu-model=A100, or the same keys as a mapping."""
    if isinstance(given, str):
        pairs = [part.strip().partition("=") for part in given.split(",")]
        said: dict[str, object] = {_camel(key.replace("-", "_")): wishes.number(value) for key, _, value in pairs}
    elif isinstance(given, Mapping):
        said = {_camel(str(key)): value for key, value in cast("Mapping[str, object]", given).items()}
    else:
        raise InvalidSpec(f"alternative {given!r} is no set of resources", fix=f"write it like {_OR_FORM}")
    names = [key for key, (path, _) in FRIENDLY.items() if path[0] == "resources"]
    _refuse_unknown("or: ", said, (*names, *_names(Resources)))
    wants: RawSpec = expand(said)["resources"] if said.keys() & set(names) else {}
    wants |= {key: value for key, value in said.items() if key not in names}
    kept = (
        first if not wants.keys() & set(_GPUS) else {key: amount for key, amount in first.items() if key not in _GPUS}
    )
    return {**kept, **wants}


def _overlay(below: RawSpec, above: RawSpec) -> RawSpec:
    """Maps are joined, other values replaced."""
    joined = {**below, **above}
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(below.get(key), Mapping):
            joined[key] = {**below[key], **cast("Mapping[str, object]", value)}
    return joined


def _plain(key: str, value: object) -> object:
    value = _SHORT.get(key, _same)(value)
    if value is None:
        return value
    if key in LISTED and isinstance(value, list | tuple):
        return [_object(f"{key}[{n}]", item, LISTED[key]) for n, item in enumerate(cast("Sequence[object]", value))]
    return _object(key, value, NESTED[key]) if key in NESTED else value


def _object(where: str, value: object, struct: type[msgspec.Struct]) -> RawSpec:
    if not isinstance(value, Mapping):
        keys = f"it has the keys {', '.join(_names(struct))}"
        raise InvalidSpec(f"{where}: expected object, got {type(value).__name__}", fix=keys)
    inner = dict(cast("Mapping[str, object]", value))
    _refuse_unknown(f"{where}.", inner, _names(struct))
    return inner


# Keys of SkyPilot's, dstack's and Kubernetes' files: what says the same here.
FOREIGN: Mapping[str, str] = {
    **dict.fromkeys(("run", "commands", "cmd"), "script: says what a shell runs, command: a program and its arguments"),
    **dict.fromkeys(("envs", "environment"), "env: has variables"),
    **dict.fromkeys(("num_nodes", "nodes"), "ranks: so many start together, with perNode: 1 each on its own machine"),
    **dict.fromkeys(("apiVersion", "kind", "metadata"), "a Kubernetes manifest is no job file; say script: and image:"),
    "setup": "python: builds an environment once, image: names one", "file_mounts": "workdir: ships files of yours",
    "accelerators": "gpus: has their number, gpuModel: their model",
}  # fmt: skip


def _refuse_unknown(prefix: str, given: Mapping[str, object], known: Iterable[str]) -> None:
    names = sorted(set(known))
    for key in given:
        if key not in names:
            from difflib import get_close_matches

            close = get_close_matches(str(key), names, n=1)
            keys = ", ".join(prefix + name for name in names)
            fix = f"did you mean {prefix}{close[0]}?" if close else f"known keys: {keys}"
            fix = fix if prefix else FOREIGN.get(str(key), fix)
            raise InvalidSpec(f"unknown key {prefix}{key}", fix=fix)


def _names(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in structs.fields(struct))


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


_OR_FORM = '"gpus=4,gpu-model=A100"'
_CHOICES: Mapping[str, Any] = {
    "priority": Priority, "effects": Effects, "restart": Restart, "warn.signal": WarnSignal, "numa": NumaPolicy,
    "qos": Qos, "topology.level": TopologyLevel, "onImpossible": Unmet, "needsTimeout.then": Unmet,
}  # fmt: skip


def _explain(error: msgspec.ValidationError) -> InvalidSpec:
    text, _, path = str(error).partition(" - at ")
    # A pattern does not help the user. The allowed values are named below.
    text = re.sub(r" matching regex .*", " of another form", text)
    where = path.removeprefix("`key` in ").strip("`").removeprefix("$").removeprefix(".") or "the job"
    fix = ""
    if where.startswith(("env", "labels", "selector")) and "Expected `str`" in text:
        fix = 'values are text: put the value in quotes, as in "3"'
    fix = wishes.FORMS.get(where.partition("[")[0], fix) if "of another form" in text else fix
    if where == "gang" and "ranks" in text:
        fix = "say how many ranks it has: ranks"
    if (choices := _CHOICES.get(where)) is not None:
        fix = f"one of {', '.join(get_args(choices))}"
    return InvalidSpec(f"{where}: {text[:1].lower()}{text[1:]}".replace("`", ""), fix=fix)
