"""`ares simulate`: what policies would have made of a trace."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from ares.app.commands.trace_flags import (
    check_outputs,
    json_option,
    read_output,
    read_percent,
    readable,
    report_option,
    source,
    trace_options,
    world,
)
from ares.edge.cli.render.output import output_option, print_objects

_POLICY = (
    "What to schedule by: a name of --list, or a file with a profile. With @exact or @predicted after it, by those run"
    " times. May be repeated.  [default: default]"
)
_LIST = "Print the policies, and exit."
_GPUS = "What if there were 20% more machines of every kind?"
_LOAD = "What if jobs came 1.2 times as fast?"
_CHECKPOINTS = "What if jobs saved their work when they have to leave, and took SECONDS to go on from it?"
_ORDERS = ("instant", "reference", "committed")
_EVENT_ORDER = (
    "instant: all that happens at one moment, then a decision. reference: one event at a time, as published EASY"
    " schedules were made. committed: whoever waits first stays first.  [default: instant]"
)
_REGIONS = (
    "Send the jobs, N times as fast, to N regions with the trace's machine each: completion times by the router of a"
    " federation, by simple rules, and by an oracle that binds a job to a region only when it starts there."
)
_SCALE = (
    "Buy the trace's machines as jobs need them: what they cost and how long jobs wait by the autoscaler, by a simple"
    " threshold, and with all machines always on."
)
_UNIT_HOUR = "With --scale: what a GPU costs an hour (a core, on machines without).  [default: 1]"
_BOOT = "With --scale: how many seconds a machine takes until it is ready.  [default: 180]"
_ETA = "Tell every job that has to wait when it will start, and say how many started within that interval."
_VIOLATIONS_SHOWN = 20
_CHECK = "Have every decision judged by a checker that knows nothing of the scheduler. Exit code 1 if one is wrong."


def print_policies(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """--list: instead of a replay."""
    from ares.sim.traces import policies

    if not value or ctx.resilient_parsing:
        return
    from ares.edge.cli.render.table import print_table

    known = policies.POLICIES.values()
    print_table(("POLICY", "WHAT IT DOES"), ((policy.name, policy.about) for policy in known), of="policies")
    ctx.exit()


@click.command()
@click.option("-p", "--policy", "policies", multiple=True, metavar="NAME|FILE", default=("default",), help=_POLICY)
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=print_policies, help=_LIST)
@click.option("--more-gpus", "gpus", metavar="PERCENT", callback=read_percent, help=_GPUS)
@click.option("--fair-share", is_flag=True, help="What if whoever used least of late came first?")
@click.option("--load", type=click.FloatRange(0.01, 100.0), default=1.0, metavar="FACTOR", help=_LOAD)
@click.option("--checkpoints", type=click.FloatRange(0.0, 86_400.0), metavar="SECONDS", help=_CHECKPOINTS)
@click.option("--no-baseline", is_flag=True, help="Only what the question changes, not also the same without it.")
@click.option("--event-order", type=click.Choice(_ORDERS), default="instant", help=_EVENT_ORDER)
@click.option("--check", is_flag=True, help=_CHECK)
@click.option("--eta", is_flag=True, help=_ETA)
@click.option("--regions", type=click.IntRange(2, 16), metavar="N", help=_REGIONS)
@click.option("--scale", is_flag=True, help=_SCALE)
@click.option("--unit-hour", type=click.FloatRange(0.0, 1e6), default=1.0, metavar="PRICE", help=_UNIT_HOUR)
@click.option("--boot-s", type=click.FloatRange(0.0, 86_400.0), default=180.0, metavar="SECONDS", help=_BOOT)
@report_option
@json_option
@click.option("--jobs-csv", metavar="FILE", callback=read_output, help="Write a line per job and policy.")
@trace_options
@output_option("table", "json")
def simulate(trace: Path, policies: tuple[str, ...], output: str, **asked: Any) -> int:
    """Compares policies on a trace of jobs.

    TRACE is a file of jobs that came and ran somewhere. It is replayed under each policy by the code that
    schedules real jobs, on a clock that jumps. No server is needed, and nothing is changed. Files may be
    gzipped. Formats: Standard Workload Format (.swf), CSV tables (Alibaba's, Philly-like, and those with
    requested times or deadlines), and the history of an Ares server.

    \b
      ares simulate KTH-SP2.swf.gz -p fcfs -p easy -p conservative
      ares simulate jobs.csv --nodes 8x96x8xA100 -p easy -p easy@exact --report out.html
      ares simulate KTH-SP2.swf.gz -p easy --regions 3
      ares simulate jobs.csv --nodes 16x96x8xA100 -p easy --scale
      ares simulate jobs.csv -p tuned.json --more-gpus 20%
      ares simulate jobs.csv -p easy --fair-share
      ares simulate jobs.csv --checkpoints 60

    The last three are questions: each policy is shown as it is and with what the question changes. The
    same seed gives the same outcome, however many cores work on it.
    """
    from ares.sim.report import figures as figures_module

    check_outputs(trace, asked["report"], asked["json_"], asked["jobs_csv"])
    if asked["scale"]:
        return _scaled(trace, policies[0], output, asked)
    if asked["regions"] is not None:
        return _regions(trace, policies[0], output, asked)
    with readable():
        asked_for = _study(trace, policies, asked)
        done = _run(asked_for, asked, quiet=asked["quiet"] or output == "json")
    _write(done, asked)
    figures = figures_module.plain(done.figures)
    if not print_objects(output, figures, lambda _: []):
        print_comparison(done.figures)
        _print_starts(done.figures)
        _print_checked(done.figures)
    return 1 if any(run.checked.broken for run in done.figures.runs if run.checked is not None) else 0


def _regions(trace: Path, policy: str, output: str, asked: dict[str, Any]) -> int:
    import msgspec

    from ares.edge.cli.render.table import print_table
    from ares.sim.routing.comparison import compare
    from ares.sim.traces import policies as policies_module

    with readable():
        found = compare(source(trace, asked).trace(), policies_module.policy(policy), asked["regions"])
    if not print_objects(output, {"regions": asked["regions"], "rules": msgspec.to_builtins(found)}, lambda _: []):
        rows = (
            (row.rule, f"{row.jobs:,}", f"{row.completion_s:,.0f}", f"{row.wait_s:,.0f}", f"{row.above:+.1%}")
            for row in found
        )
        print_table(("RULE", "JOBS", "COMPLETION S", "WAIT S", "AGAINST THE ORACLE"), rows, of="rules")
    return 0


def _scaled(trace: Path, policy: str, output: str, asked: dict[str, Any]) -> int:
    import msgspec

    from ares.edge.cli.render.table import print_table
    from ares.sim.scaling.comparison import compare_scalers
    from ares.sim.scaling.fleet import FleetTerms
    from ares.sim.traces import policies as policies_module

    terms = FleetTerms(unit_hour=asked["unit_hour"], boot_s=asked["boot_s"])
    with readable():
        found = compare_scalers(source(trace, asked).trace(), policies_module.policy(policy), terms)
    if not print_objects(output, {"scalers": msgspec.to_builtins(found)}, lambda _: []):
        rows = (
            (row.scaler, f"{row.jobs:,}", f"{row.machines:,}", f"{row.cost:,.1f}", f"{row.wait_s:,.0f}",
             f"{row.wait_p95_s:,.0f}", f"{row.late:,}")
            for row in found
        )  # fmt: skip
        print_table(("SCALER", "JOBS", "MACHINES", "COST", "WAIT S", "P95", "LATE"), rows, of="scalers")
    return 0


def _print_starts(figures: Any) -> None:
    judged = [(run.policy, run.starts) for run in figures.runs if run.starts is not None]
    if judged:
        click.echo("\nstarted within the interval they were told, which is meant for 80 %")
    for name, starts in judged:
        rate = (
            "nobody was told"
            if starts.rate is None
            else f"{starts.rate * 100:.1f} % of {starts.told:,} jobs that had to wait"
        )
        click.echo(f"  {_harmless(name)}: {rate}")


def _print_checked(figures: Any) -> None:
    verdicts: list[Any] = [run.checked for run in figures.runs if run.checked is not None]
    if verdicts:
        decisions, broken = sum(verdict.decisions for verdict in verdicts), sum(verdict.broken for verdict in verdicts)
        click.echo(f"\nchecked {decisions:,} decisions: {broken:,} violations")
        for verdict in verdicts:
            words: list[str] = verdict.words()
            for line in words[:_VIOLATIONS_SHOWN]:
                click.echo(f"  {_harmless(line)}")
            if len(words) > _VIOLATIONS_SHOWN:
                click.echo("  ... more are in --json and --report")


def _study(trace: Path, policies: Sequence[str], asked: dict[str, Any]) -> Any:
    from ares.sim.study import study
    from ares.sim.traces import policies as policies_module

    by = study.renamed([policies_module.policy(name) for name in policies])
    question = study.WhatIf(asked["gpus"], asked["load"], asked["fair_share"], asked["checkpoints"])
    found = source(trace, asked).trace()
    return study.study(
        found,
        by,
        world(asked, asked["event_order"], check=asked["check"], eta=asked["eta"]),
        question,
        baseline=not asked["no_baseline"],
    )


def _run(asked_for: Any, asked: dict[str, Any], *, quiet: bool) -> Any:
    from ares.edge.cli.render.progress import Bars
    from ares.sim.study import runs, study

    workers = asked["workers"] or runs.cores()
    with Bars(asked_for.names, "jobs", quiet=quiet) as bars:
        return study.run(asked_for, workers, bars.show)


def _write(done: Any, asked: dict[str, Any]) -> None:
    from ares.sim.report import figures as figures_module
    from ares.sim.report import report

    if asked["report"] is not None:
        page = report.report(done.figures, done.outcomes)
        asked["report"].write_text(page, encoding="utf-8")
    if asked["json_"] is not None:
        import json

        figures = figures_module.plain(done.figures)
        asked["json_"].write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if asked["jobs_csv"] is not None:
        with asked["jobs_csv"].open("w", encoding="utf-8", errors="replace", newline="") as file:
            report.write_jobs(done.outcomes, file)


def print_comparison(figures: Any) -> None:
    """In blocks of as many policies as a terminal is wide."""
    from ares.sim.report import report

    rows: list[list[str]] = report.rows(figures)
    lead: list[str] = report.lead(figures)
    said = [words for run in figures.runs for words in run.warnings]
    for words in dict.fromkeys(said):
        click.echo(f"note: {_harmless(words)}", err=True)
    click.echo(f"{_harmless(figures.trace)}: {lead[0]}")
    names = [run.policy for run in figures.runs]
    for block in _blocks(["", *names], rows):
        click.echo("")
        for line in block:
            click.echo(line)
    if len(names) > 1:
        click.echo(f"\n* the best; in brackets the change against {_harmless(names[0])}")


def _blocks(header: list[str], rows: list[list[str]]) -> Iterator[list[str]]:
    from ares.edge.cli.render.table import layout

    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    at = 1
    while at < len(header):
        upto = at + 1
        while upto < len(header):
            more = layout(_picked(header, at, upto + 1), [_picked(row, at, upto + 1) for row in rows])
            if max(map(len, more)) > wide:
                break
            upto += 1
        yield layout(_picked(header, at, upto), [_picked(row, at, upto) for row in rows])
        at = upto


def _picked(row: list[str], at: int, upto: int) -> list[str]:
    return [row[0], *row[at:upto]]


def _harmless(text: str) -> str:
    from ares.edge.cli.render.text import printable

    return printable(text)
