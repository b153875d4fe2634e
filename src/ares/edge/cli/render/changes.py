"""The smallest change that would start a job, as the flags to type or the lines of the job file to edit."""

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any

_FLAGS: Mapping[str, Callable[[Any], str]] = {
    "resources.gpus": lambda value: f"--gpus {value}",
    "resources.cpuMilli": lambda value: f"--cpus {value}m",
    "resources.memoryMib": lambda value: f"--memory {value}M",
    "resources.gpuMilli": lambda value: f"--gpu-share {value / 1000:g}",
    "resources.gpuMemoryMib": lambda value: f"--gpu-memory {value}M",
    "resources.gpuModel": lambda value: f"--gpu-model {shlex.quote(value)}",
    "gang.ranks": lambda value: f"--ranks {value}",
    "priority": lambda value: f"--priority {value}",
    "gang.minRanks": lambda value: f"--min-ranks {value}",
    "numa": lambda value: f"--numa {value}",
    "topology.level": lambda value: f"--topology {value}:required",
    "tolerations": lambda value: " ".join(f"--tolerate {shlex.quote(_taint(toleration))}" for toleration in value),
}
# Fields with names below them: one flag for each.
_NAMED: Mapping[str, str] = {"resources.devices": "--device", "licences": "--licence"}
# What is given up by not saying it: the flags that say it. With names below them, only that of the name.
_LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "resources.gpuModel": ("--gpu-model",),
    "resources.gpuMemoryMib": ("--gpu-memory",),
    "gang.perNode": ("--per-node",),
    "licences": ("--licence",),
    "selector": ("--selector",),
    "affinity": ("--require", "--prefer"),
    "jobAffinity": ("--near", "--away"),
    "residency": ("--region",),
    "topology": ("--topology",),
}


def as_typed(fields: Mapping[str, Any]) -> str:
    """--gpus 3, or "leave out --gpu-model, or in the job file, resources.gpuModel: remove it"."""
    flags = [flag for name, value in fields.items() if (flag := _flag(name, value))]
    left_out = [flag for name, value in fields.items() if not value for flag in _left_out(name)]
    lines = [_line(name, value) for name, value in fields.items() if not _flag(name, value)]
    edit = f"in the job file, {', '.join(lines)}" if lines else ""
    parts = (" ".join(flags), f"leave out {', '.join(left_out)}, or {edit}" if left_out else edit)
    return "; ".join(part for part in parts if part)


def _left_out(name: str) -> tuple[str, ...]:
    if name in _LEFT_OUT:
        return _LEFT_OUT[name]
    field, _, below = name.partition(".")
    # The rest of "affinity.0.required" is no name.
    if field in ("licences", "selector"):
        return tuple(f"{flag} {shlex.quote(below)}" for flag in _LEFT_OUT[field])
    return ()


def _flag(name: str, value: Any) -> str:
    # Zero of something is said by leaving it out, and a flag cannot take away what a file has.
    if value is None or value in (0, []):
        return ""
    if name in _FLAGS:
        return _FLAGS[name](value)
    for field, flag in _NAMED.items():
        if name.startswith(f"{field}."):
            return f"{flag} {shlex.quote(name.removeprefix(f'{field}.'))}={value}"
    return ""


def _line(name: str, value: Any) -> str:
    # Zero of something is the same as nothing said; False is a value.
    gone = value is None or (type(value) is int and value == 0)
    return f"{name}: remove it" if gone else f"{name}: {json.dumps(value)}"


def _taint(toleration: Mapping[str, str]) -> str:
    return f"{toleration['key']}={toleration['value']}" if toleration.get("value") is not None else toleration["key"]
