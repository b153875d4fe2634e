"""`ares tune`: a better profile for a trace."""

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import click

from ares.app.commands.trace_flags import (
    check_outputs,
    json_option,
    read_output,
    readable,
    report_option,
    source,
    trace_options,
    world,
)
from ares.edge.cli.render.output import output_option, print_objects

_AIMS = (
    "slowdown",
    "wait",
    "jct",
    "utilisation",
    "fragmentation",
    "makespan",
    "fairness",
    "deadlines",
    "cost",
    "energy",
)
_OBJECTIVE = (
    "What is to become better; may be repeated. Taken is the profile that is best in the first and at most 2 % worse in"
    " the others.  [default: slowdown, utilisation, fairness, and deadlines, cost and energy if any]"
)
_HOLDOUT = "Part of the time to judge by, at its end."
_BASE = "What to start from: a policy of `ares simulate --list`, or a file as `ares profile show -o yaml` prints it."
_WRITE = "Write the profile, for `ares profile edit -f FILE`."


@click.command()
@click.option("--objective", "aims", multiple=True, type=click.Choice(_AIMS), metavar="NAME", help=_OBJECTIVE)
@click.option("--trials", type=click.IntRange(2, 900), default=40, show_default=True, help="Profiles to try.")
@click.option("--holdout", type=click.FloatRange(0.05, 0.9), default=0.3, show_default=True, help=_HOLDOUT)
@click.option("--base", default="default", metavar="NAME|FILE", show_default=True, help=_BASE)
@click.option("--write", metavar="FILE", callback=read_output, help=_WRITE)
@report_option
@json_option
@trace_options
@output_option("table", "json")
def tune(trace: Path, aims: tuple[str, ...], trials: int, holdout: float, base: str, output: str, **asked: Any) -> None:
    """Searches a better profile for the jobs of TRACE.

    Weights of scorers, order of jobs, ageing and backfill are changed and tried out on the first weeks
    of the trace. What comes out is judged by the weeks after, which the search has not seen, beside the
    profile it began with. When it is not better there, that is said.

    \b
      ares tune jobs.swf --trials 60 --write tuned.json --report tuned.html
      ares profile edit -f tuned.json
      ares tune jobs.csv --nodes 8x96x8xA100 --objective wait --objective cost

    The same seed gives the same profile. To keep shares, pools and limits that are in force, begin with
    them: `ares profile show -o yaml > mine.yaml`, then `--base mine.yaml`.
    """
    from ares.sim.traces import policies
    from ares.sim.tune import page as figures_module
    from ares.sim.tune import tune

    check_outputs(trace, asked["write"], asked["report"], asked["json_"])
    with readable():
        policy = tune.base_policy(policies.policy(base))
        found = source(trace, asked).trace()
        goal = tune.Goal(tuple(aims), trials, holdout)
        tuned = _run(found, policy, world(asked), goal, asked, quiet=asked["quiet"] or output == "json")
    figures = figures_module.figures(tuned)
    _write(tuned, figures, base, asked)
    if not print_objects(output, figures, lambda _: []):
        _print(tuned, asked["write"])


def _run(trace: Any, base: Any, about: Any, goal: Any, asked: dict[str, Any], *, quiet: bool) -> Any:
    from ares.edge.cli.render.progress import Bars
    from ares.sim.study import runs
    from ares.sim.tune import tune

    workers: int = asked["workers"] or runs.cores()
    with Bars(["tuning"], "replays", quiet=quiet) as bars:
        return tune.tune(trace, base, about, goal, workers, partial(bars.show, 0))


def _write(tuned: Any, figures: dict[str, Any], base: str, asked: dict[str, Any]) -> None:
    import json

    from ares.sim.tune import page, tune

    if asked["write"] is not None:
        profile = tune.written(tuned, _version(base))
        asked["write"].write_text(json.dumps(profile, indent=2) + "\n", encoding="utf-8")
    if asked["json_"] is not None:
        asked["json_"].write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if asked["report"] is not None:
        asked["report"].write_text(page.report(tuned), encoding="utf-8")


def _version(base: str) -> int | None:
    """That of the file which was begun with: the tuned one is taken only while it is in force."""
    path = Path(base.partition("@")[0])
    if not path.is_file() or path.suffix == ".toml":
        return None
    import yaml

    found: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found.get("version") if "profile" in found else None


def _print(tuned: Any, written: Path | None) -> None:
    from ares.app.commands.simulate import print_comparison
    from ares.edge.cli.render.table import print_table
    from ares.sim.tune import page as page_module

    cut = tuned.split
    click.echo(
        f"{tuned.found.tried} profiles tried on the {len(cut.train.jobs):,} jobs of the first part; "
        f"{len(tuned.found.front)} {'is' if len(tuned.found.front) == 1 else 'are'} beaten by no other\n"
    )
    print_table(page_module.front_header(tuned), page_module.front_rows(tuned), of="profiles")
    click.echo("\non held-out jobs")
    print_comparison(tuned.figures)
    click.echo(f"\n{page_module.verdict(tuned)}")
    if written is not None:
        which = "tuned" if tuned.chosen else "base"
        click.echo(f"{written} holds the {which} profile; `ares profile edit -f {written}` puts it in force")
    if tuned.helps:
        sets = " ".join(shlex.quote(f"{key}={value}") for key, value in tuned.settings.items())
        click.echo(f"What it changes, alone:\n  ares profile set {sets}")
