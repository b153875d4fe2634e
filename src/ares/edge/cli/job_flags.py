"""What describes a job: files in YAML, TOML or JSON, and the flags of `ares submit` and `ares plan`: the same keys."""

import os
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from ares.edge.cli.options import pairs_option, read_pairs
from ares.edge.client.errors import InvalidSpec

if TYPE_CHECKING:
    from ares.model.job import JobSpec


# ---- job files


def read_job_file(name: str) -> dict[str, object]:
    """The keys of a job file. `-` is standard input, in YAML or JSON."""
    if name == "-":
        return _mapping("standard input", _yaml, sys.stdin.buffer.read())
    path = Path(name)
    return _mapping(name, _READERS.get(path.suffix.lower(), _yaml), path.read_bytes())


def _mapping(name: str, read: Callable[[str], Any], data: bytes) -> dict[str, object]:
    if data.startswith(b"#!"):
        options = "; its #SBATCH lines are not read: say them as options" if b"\n#SBATCH" in data else ""
        raise InvalidSpec(f"{name} is a script and no job file", fix=f"ares submit -- sh {name}{options}")
    try:
        value: object = read(data.decode())
    except ValueError as error:
        raise InvalidSpec(
            f"{name} cannot be read: {error}", fix="correct the file; see `ares submit --help`"
        ) from error
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in cast("dict[object, object]", value)):
        raise InvalidSpec(
            f"{name} does not hold a job", fix="write keys at its top, such as command: [python, train.py]"
        )
    return cast("dict[str, object]", value)


def _yaml(text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses a key that stands twice: YAML itself would drop the first silently."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            construct = cast("Callable[..., Any]", self.construct_object)  # pyright: ignore[reportUnknownMemberType]
            seen = set[Any]()
            for key, _ in node.value:
                name = construct(key, deep=True)
                # A key that cannot be one is refused by YAML itself.
                if isinstance(name, Hashable) and name in seen:
                    raise ValueError(f"the key {name!r} stands twice, line {key.start_mark.line + 1}")
                seen.update([name] if isinstance(name, Hashable) else [])
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        said = [text for text in (error.context, error.problem) if text]
        raise ValueError(where + ", ".join(said)) from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _toml(text: str) -> Any:
    import tomllib

    return tomllib.loads(text)


def _json(text: str) -> Any:
    import json

    return json.loads(text)


_READERS: Mapping[str, Callable[[str], Any]] = {".toml": _toml, ".json": _json, ".yaml": _yaml, ".yml": _yaml}


# ---- flags


F = TypeVar("F", bound=Callable[..., Any])

PRIORITIES = ("CRITICAL", "HIGH", "NORMAL", "LOW", "BEST_EFFORT")
EFFECTS = ("staged", "fenced", "idempotent", "unsafe")
RESTARTS = ("never", "on-failure", "always")
NUMA = ("none", "preferred", "required")
QOS = ("guaranteed", "burstable", "best-effort")
ISOLATION = ("any", "process", "sandbox")
NETWORK = ("host", "none")
UNMET = ("skip", "fail", "run")
ON_PARTITION = ("stay", "move")
# Flags that are keys of a job file, some under another name.
_KEYS = {
    "name": "name", "cpus": "cpus", "memory": "memory", "gpus": "gpus", "gpu_model": "gpuModel",
    "gpu_share": "gpuShare", "gpu_memory": "gpuMemory", "device": "device", "or_": "or", "ranks": "ranks",
    "min_ranks": "minRanks", "per_node": "perNode", "assembly": "assembly", "resize_signal": "resizeSignal",
    "topology": "topology", "numa": "numa", "qos": "qos", "licence": "licences", "team": "team",
    "tolerate": "tolerate", "require": "require", "prefer": "prefer", "near": "near", "away": "away",
    "region": "residency", "on_partition": "onPartition", "input_": "inputs", "deadline": "deadline",
    "start_by": "startBy",
    "deadline_strict": "deadlineStrict", "sla": "sla", "runtime": "runtime", "runtime_on": "runtimeOn",
    "procs": "procs", "elastic": "elastic",
    "gap_min": "gapMin",
    "checkpoint_signal": "checkpointSignal", "checkpoint_wait": "checkpointWait", "checkpoint": "checkpoint",
    "checkpoint_every": "checkpointEvery", "restore_from": "restoreFrom",
    "preempt": "preempt",
    "priority": "priority", "time": "time", "signal": "signal", "grace": "grace", "retries": "retries",
    "oom_factor": "oomFactor", "oom_max": "oomMax",
    "restart": "restart", "effects": "effects", "array": "array", "selector": "selector", "lease": "lease",
    "label": "labels", "env": "env", "secret": "secrets", "reservation": "reservation",
    "isolation": "isolation", "network": "network", "input_ref": "inputRefs", "cost_estimate": "costEstimate",
    "begin": "begin", "hold": "held", "after": "after", "needs_timeout": "needsTimeout",
    "on_impossible": "onImpossible",
    "notify": "notify", "image": "image", "children": "children", "python": "python",
}  # fmt: skip


class PriorityType(click.Choice[str]):
    """A name, or its number: 0 is the most important."""

    def __init__(self) -> None:
        super().__init__(PRIORITIES, case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        named = PRIORITIES[int(value)] if value in map(str, range(len(PRIORITIES))) else value
        return super().convert(named, param, ctx)


def read_env(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """K=V, or K alone for the value it has here."""
    for value in values:
        if "=" not in value and value not in os.environ:
            raise click.BadParameter(f"{value} is not set here; write {value}=VALUE", ctx, param)
    return read_pairs(ctx, param, tuple(v if "=" in v else f"{v}={os.environ[v]}" for v in values))


def _text(flag: str, metavar: str, said: str) -> Callable[[Any], Any]:
    return click.option(flag, metavar=metavar, help=said)


def _texts(flag: str, metavar: str, said: str, *names: str) -> Callable[[Any], Any]:
    return click.option(flag, *names, multiple=True, metavar=metavar, help=f"{said} May be repeated.")


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "-f", "--file", metavar="FILE", help="Job file in YAML, TOML or JSON; - reads it from stdin. Flags override it."
    ),
    click.option("--name", help="Name to show.  [default: job]"),
    # What it needs.
    click.option("--gpus", type=int, help="GPUs.  [default: 0]"),
    click.option("--gpu-model", help="Only this model, such as A100."),
    _text("--gpu-share", "PART", "A part of each GPU, shared with other jobs: 0.5 or 50%."),
    _text("--gpu-memory", "SIZE", "GPUs with at least this much memory: 40G."),
    _texts("--device", "KIND=N", "Other devices, and MIG slices: tpu-v4=2, mig-1g.10gb=1."),
    click.option("--cpus", metavar="N", help="CPUs: 2, 1.5 or 500m.  [default: 1]"),
    click.option(
        "--memory", "--mem", metavar="SIZE", help="Memory: 512M, 4G.  [default: the share of its CPUs or GPUs]"
    ),
    _texts("--or", "RESOURCES", 'Or else this, in this order: "gpus=4,gpu-model=A100".', "or_"),
    _texts("--licence", "NAME[=N]", "Of the cluster's licences: matlab=1."),
    click.option("--qos", type=click.Choice(QOS), help="How firmly it holds what it has.  [default: guaranteed]"),
    # As a gang.
    click.option(
        "--ranks", type=int, metavar="N", help="Processes that start together; the resources are those of one."
    ),
    click.option("--min-ranks", type=int, metavar="N", help="Start with as few as this, and grow when there is room."),
    click.option("--per-node", type=int, metavar="N", help="At most so many ranks on one machine."),
    _text("--assembly", "TIME", "Give up unless all ranks have started by then.  [default: 5m]"),
    _text("--resize-signal", "NAME", "Sent to the ranks that stay when the gang grew or shrank: USR1."),
    # Where.
    pairs_option("--selector", help="Only on machines with this label."),
    _texts("--require", "TERM", 'Only on machines like this: "zone in a,b", "!spot".'),
    _texts("--prefer", "TERM", "Rather on machines like this."),
    _texts("--near", "LABELS[@LEVEL]", "Where jobs of yours with these labels run: app=db@rack."),
    _texts("--away", "LABELS[@LEVEL]", "Where no jobs of yours with these labels run: app=web."),
    _texts("--tolerate", "KEY[=VALUE]", "Also on machines with this taint."),
    _texts("--region", "NAME", "Only in this region."),
    _texts("--input", "NAME=DATASET", "A dataset it reads: data=ares://datasets/mnist. Or a size: mnist=1G.", "input_"),
    _texts("--input-ref", "REF", "What it reads, by reference: s3://bucket/key, sha256:..., or a dataset."),
    _text("--topology", "LEVEL[:required]", "Together in one nvlink domain, node, rack, zone or region."),
    click.option("--numa", type=click.Choice(NUMA), help="CPUs, memory and GPUs of one NUMA node.  [default: none]"),
    # Time and priority.
    click.option("--priority", type=PriorityType(), help="By name or number, 0 to 4.  [default: NORMAL]"),
    _text("--cost-estimate", "N", "What you say it costs: shown beside the server's own estimate, and never used."),
    click.option("--team", help="The team whose share it counts for."),
    click.option("--reservation", metavar="NAME", help="In the room of this reservation; see `ares reservations`."),
    _text("--deadline", "TIME", "Should have ended by then: 2h from now, 18:00, or 2026-12-01T18:00."),
    _text("--start-by", "TIME", "Should have started by then."),
    click.option(
        "--deadline-strict", is_flag=True, default=None, help="Refuse it if by the estimates the deadline is missed."
    ),
    click.option("--sla", metavar="CLASS", help="Class of service: gives it its deadline; see `ares sla`."),
    _texts("--runtime-on", "MODEL=TIME", "How long it runs on that GPU model, to be given the best: A100=2h."),
    _texts(
        "--runtime",
        "KIND|TIME",
        "What starts its processes: torch, mpi, ray or julia. Or how long you expect it to run, so that others learn "
        "when its place is free: 2h.",
    ),
    click.option("--procs", metavar="N", help="With a runtime: processes of each rank; gpus for one a GPU."),
    click.option("--elastic", is_flag=True, default=None, help="With a runtime: go on when the gang shrinks or grows."),
    _text("--gap-min", "TIME", "Run in gaps of at least this length too, and leave when they end: 30m."),
    click.option(
        "--preempt/--no-preempt", default=None, help="May it be displaced by more important jobs?  [default: yes]"
    ),
    _text("--checkpoint-signal", "NAME", "Sent before it is displaced, so that it saves its state: USR1."),
    _text("--checkpoint-wait", "TIME", "Time it has for that.  [default: 30s]"),
    click.option("--checkpoint", is_flag=True, default=None, help="It saves checkpoints and goes on from the newest."),
    _text("--checkpoint-every", "TIME", "How often one is due; auto: as often as pays.  [default: auto]"),
    _text("--restore-from", "JOB[@N]", "Begin from the newest checkpoint of that job, or from its number N."),
    # Before it is queued.
    _text("--begin", "TIME", "Not before then: 2h from now, 18:00, or 2026-12-01T18:00."),
    click.option("--hold", is_flag=True, default=None, help="Not before it is released; see `ares release`."),
    _texts("--after", "ok:JOB", "When that job has succeeded; or fail:JOB, any:JOB (ended), start:JOB."),
    _text("--needs-timeout", "TIME", "Give up when it has waited so long for other jobs."),
    click.option(
        "--on-impossible",
        type=click.Choice(UNMET),
        help="What becomes of it when what it waits for cannot happen.  [default: skip]",
    ),
    # How it runs.
    click.option(
        "--on-partition",
        type=click.Choice(ON_PARTITION),
        help="When its cluster of a federation is cut off: stay, or end there and move.  [default: stay]",
    ),
    click.option("--time", metavar="TIME", help="Wall-time limit: 90s, 2h, 1d12h."),
    click.option("--signal", metavar="NAME@TIME", help="Signal sent that long before the time limit: USR1@60s."),
    click.option("--grace", metavar="TIME", help="Time between SIGTERM and SIGKILL.  [default: 30s]"),
    click.option("--retries", type=int, help="Retries after a failure.  [default: 3]"),
    click.option("--oom-factor", type=float, help="After running out of memory, so many times as much.  [default: 1]"),
    _text("--oom-max", "SIZE", "And never more than this; without it, as much as the largest machine has."),
    click.option("--children", type=int, metavar="N", help="It may submit so many jobs while it runs.  [default: 0]"),
    click.option("--restart", type=click.Choice(RESTARTS), help="When to run it again.  [default: on-failure]"),
    click.option(
        "--effects",
        type=click.Choice(EFFECTS),
        help="What a second attempt would do to the outside world.  [default: staged]",
    ),
    click.option(
        "--lease", metavar="TIME", help="How long its machine may be silent before the job moves.  [default: 9s]"
    ),
    click.option(
        "--array", metavar="RANGE", help="One task per index: 0-9, 1,5,7-20 or 0-100:10; 0-199%8 lets 8 run at once."
    ),
    click.option(
        "--env",
        "-e",
        multiple=True,
        metavar="K[=V]",
        callback=read_env,
        help="Environment variable; K alone copies yours.",
    ),
    _text(
        "--image",
        "REF",
        "Container image to run in: python:3.12, docker://HOST/NAME:TAG, oci-archive:FILE, docker-archive:FILE, "
        "oci:DIR, or dir:/DIR of its machine.",
    ),
    _texts(
        "--secret",
        "NAME[:ENV]",
        "A secret as a variable, as a file with NAME:file=FILE, or as the account that fetches the image with "
        "NAME:registry=HOST.",
    ),
    click.option(
        "--isolation",
        type=click.Choice(ISOLATION),
        help="How well it must be kept apart on its machine.  [default: any]",
    ),
    click.option("--network", type=click.Choice(NETWORK), help="The machine's network, or none.  [default: host]"),
    pairs_option("--label", help="Label to find it by."),
    click.option(
        "--notify",
        multiple=True,
        envvar="ARES_NOTIFY",
        metavar="CHANNEL[:WHEN]",
        help="Tell this channel when it has ended; WHEN is end, fail or success. Or ARES_NOTIFY. May be repeated.",
    ),
    _text(
        "--python",
        "FILE|DIR|none",
        "Python environment: built from requirements.txt, pyproject.toml or uv.lock, or one that its machine has."
        "  [default: the active one]",
    ),
    click.option(
        "--chdir",
        "-C",
        type=click.Path(file_okay=False),
        help="Directory to start in, on the machine it runs on; nothing is shipped then.",
    ),
)


def job_options(command: F) -> F:
    """Adds them all, and the command to run."""
    command = click.argument("command", nargs=-1, type=click.UNPROCESSED)(command)
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def asked(said: Sequence[Mapping[str, object]]) -> "JobSpec":
    """The job that file, flags and command describe together."""
    from ares.edge.client.ask import spec_from

    return spec_from(*said)


def layers(command: Sequence[str], flags: dict[str, Any]) -> list[dict[str, object]]:
    """The keys of the job's file, and of the flags, which override it."""

    return [*([read_job_file(flags["file"])] if flags["file"] else []), by_flags(command, flags)]


def flow_file(name: str) -> dict[str, object] | None:
    """The keys of a workflow file; None when the file describes one job, or is to be read once only."""

    if name == "-":
        return None
    read = read_job_file(name)
    return read if "jobs" in read else None


def by_flags(command: Sequence[str], flags: dict[str, Any]) -> dict[str, object]:
    """The flags that were given, as keys of a job file."""
    given = {key: flags[flag] for flag, key in _KEYS.items() if flags.get(flag) not in (None, {}, ())}
    given |= {"chdir": os.path.abspath(flags["chdir"])} if flags["chdir"] else {}
    given |= {"command": list(command)} if command else {}
    return given
