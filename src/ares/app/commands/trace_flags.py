"""What `ares simulate` and `ares tune` share: the flags that name a trace and a world, and errors in them."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ares.edge.cli.options import read_seconds

if TYPE_CHECKING:
    from ares.sim.traces.engine import EventOrder

F = TypeVar("F", bound=Callable[..., Any])

_FACTOR_MAX = 100.0
_option = click.option
_FORMAT = "swf, alibaba, philly, easy, deadlines or history.  [default: seen from the file]"
_NODES = (
    "The machines: COUNTxCPUS[xGPUSxMODEL], such as 8x96x8xA100,2x64, or a file with a list."
    "  [default: those of the trace]"
)
_FROM = "Leave out jobs that come sooner than this after the first, such as 7d."
_UNTIL = "Leave out jobs that come this long after the first, or later."
_ESTIMATES = (
    "Where all policies take run times from: what jobs state, the truth, or what like jobs did."
    "  [default: as the policy says]"
)
_FAILURES = (
    "Nodes fail: a CSV file (at,node,lasts_s), or the mean time between two failures of a node and that to repair it,"
    " such as 30d/4h."
)
_WORKERS = "Replays at once.  [default: one per core]"


class BadInput(Exception):
    """A file or an option that cannot be used; `fix` says what to do."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


# ---- values of options


def read_percent(ctx: click.Context, param: click.Parameter, value: str | None) -> float:
    """20% as 1.2, -10% as 0.9."""
    if value is None:
        return 1.0
    try:
        factor = 1.0 + float(value.strip().removesuffix("%")) / 100
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a percentage; write 20% or -10%", ctx, param) from None
    if not 0.0 < factor <= _FACTOR_MAX:
        raise click.BadParameter(f"{value} leaves nothing, or is beyond {_FACTOR_MAX:g} times as much", ctx, param)
    return factor


def read_output(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """Seen to before hours of work, not after."""
    if value is None:
        return None
    path = Path(value)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise click.BadParameter(f"{value} cannot be written: its folder does not exist, or it is one", ctx, param)
    return path


def check_outputs(trace: Path, *outputs: Path | None) -> None:
    """Files to be written do not take the place of the trace, nor of each other."""
    seen = {trace.resolve(): "the trace"}
    for path in outputs:
        if path is None:
            continue
        if path.resolve() in seen:
            raise click.UsageError(f"{path} is {seen[path.resolve()]}; name another file to write")
        # What is no file has room for several: /dev/null, /dev/stdout.
        if path.is_file() or not path.exists():
            seen[path.resolve()] = "named twice"


report_option = click.option(
    "--report", metavar="FILE", callback=read_output, help="Write an HTML page with plots, complete in itself."
)
json_option = click.option(
    "--json", "json_", metavar="FILE", callback=read_output, help="Write the figures, as `-o json` prints them."
)


def trace_options(command: F) -> F:
    """What `simulate` and `tune` share: the trace, its nodes, its part, the seed, the cores."""
    options = (
        click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path)),
        _option("--format", "format_", metavar="NAME", help=_FORMAT),
        _option("--nodes", metavar="KINDS|FILE", help=_NODES),
        _option("--from", "since_s", metavar="TIME", callback=read_seconds, help=_FROM),
        _option("--until", "until_s", metavar="TIME", callback=read_seconds, help=_UNTIL),
        _option("--first", type=click.IntRange(1), metavar="N", help="Only the first N jobs of what is left."),
        _option("--estimates", type=click.Choice(["user", "exact", "predicted"]), help=_ESTIMATES),
        _option("--failures", metavar="FILE|TIME[/TIME]", help=_FAILURES),
        _option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of all that is left to chance."),
        _option("-j", "--jobs", "workers", type=click.IntRange(1), metavar="N", help=_WORKERS),
        _option("-q", "--quiet", is_flag=True, help="No progress."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def source(trace: Path, asked: dict[str, Any]) -> Any:
    from ares.sim.study import study

    return study.Source(
        trace, asked["format_"], asked["nodes"], asked["since_s"] or 0.0, asked["until_s"], asked["first"]
    )


def world(
    asked: dict[str, Any], event_order: "EventOrder" = "instant", *, check: bool = False, eta: bool = False
) -> Any:
    """What holds for every replay."""
    from ares.sim.study import study

    failures: str | None = asked["failures"]
    means = None if failures is None or Path(failures).is_file() else _means(failures)
    return study.StudyWorld(asked["seed"], asked["estimates"], event_order, failures, means, check, eta)


def _means(text: str) -> tuple[float, ...]:
    from ares.edge.client.errors import InvalidSpec
    from ares.edge.client.units import seconds

    try:
        found = tuple(seconds(part) for part in text.split("/"))
    except InvalidSpec as error:
        what = f"--failures {text}: no such file, and not a time: {error}"
        raise BadInput(what, "write 30d, or 30d/4h with the time to repair, or name a file") from None
    if len(found) > 2 or min(found) <= 0:
        raise BadInput(f"--failures {text}: one or two times above 0", "write 30d, or 30d/4h")
    return found


@contextmanager
def readable() -> Generator[None]:
    """Errors of the simulator in the form that errors have here."""
    from ares.check.replay import trace
    from ares.sim.traces import policies

    try:
        yield
    except trace.BadTrace as error:
        where = f"{error.file}:{error.line}" if error.line else error.file
        raise BadInput(f"{where}: {error.what}", error.do) from None
    except policies.UnknownPolicy as error:
        raise BadInput(str(error), "`ares simulate --list` says what each policy does") from None
