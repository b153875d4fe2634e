"""`ares sim`: the whole platform under seeded faults, in one process per core and without a cluster."""

import os
import sys
from typing import Any, NoReturn

import click

from ares.edge.cli.render.output import output_option, print_objects

_FEDERATION = "Worlds of a global plane and several clusters, judged by F1 to F14."
_MUTANT = "Switch a seeded bug on, to see it caught; `ares sim mutants --list` names them."


@click.group()
def sim() -> None:
    """Proves exactly-once on simulated worlds with seeded faults.

    A seed decides everything that happens in its world: who crashes, freezes or is cut off, what the store
    loses, in which order everybody wakes. The same seed gives the same history, byte for byte. Independent
    checkers judge each history by the predicates E1 to E27, and those of several clusters by F1 to F14.
    """


@sim.command("run")
@click.option("--seeds", type=click.IntRange(1, 100_000_000), default=2000, show_default=True, help="How many worlds.")
@click.option("--first", type=click.IntRange(0, 1 << 62), default=0, show_default=True, help="The first seed.")
@click.option("--mutant", default="", metavar="NAME", help=_MUTANT)
@click.option("--federation", is_flag=True, help=_FEDERATION)
@click.option("--workers", type=click.IntRange(0, 1024), default=0, help="Processes.  [default: one per core]")
@click.option("--stop", is_flag=True, help="Stop at the first world that breaks a promise.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@output_option("table", "json")
def run_(
    seeds: int, first: int, mutant: str, federation: bool, workers: int, stop: bool, quiet: bool, output: str
) -> int:
    """Plays many worlds and judges each. Exit code 1 when a promise was broken."""
    from ares.edge.cli.render.progress import Bars
    from ares.sim.world import seeds as seeds_module

    _known(mutant, federation)
    outcomes: list[Any] = []
    with Bars(["worlds"], "seeds", quiet=quiet or output == "json") as bars:
        for outcome in seeds_module.run(seeds_module.Range(first, seeds, mutant, workers, stop, federation=federation)):
            outcomes.append(outcome)
            bars.show(0, len(outcomes), seeds)
    found = seeds_module.summarize(outcomes)
    if not print_objects(output, seeds_module.figures(found), lambda _: []):
        _print_federation(found) if federation else _print(found)
    return 1 if found.broken else 0


@sim.command("replay")
@click.option("--seed", type=click.IntRange(0, 1 << 62), required=True, help="The world to play again.")
@click.option("--mutant", default="", metavar="NAME", help=_MUTANT)
@click.option("--case", default="", metavar="NAME", help="A directed case instead of the swarm.")
@click.option("--federation", is_flag=True, help=_FEDERATION)
@click.option("--history", metavar="FILE", type=click.Path(dir_okay=False), help="Write the history, as JSON lines.")
@output_option("table", "json")
def replay_(seed: int, mutant: str, case: str, federation: bool, history: str | None, output: str) -> int:
    """Tells the story of one world. Exit code 1 when it breaks a promise."""
    from ares.check.invariants import history as history_module
    from ares.sim.world import seeds, story

    _fixed_hashes()
    _known(mutant, federation)
    _known_case(case)
    if federation:
        return _replay_federation(seed, mutant, history, output)
    played, judged = seeds.replay(seed, mutant, case)
    if history is not None:
        with open(history, "wb") as file:
            file.write(history_module.encode(played.events))
    if not print_objects(output, seeds.outcome(judged), lambda _: []):
        from ares.edge.cli.render.text import printable

        for line in story.story(played.events, judged.violations):
            click.echo(printable(line))
        for failure in judged.failures:
            click.echo(printable(f"!!! not caught by anybody: {failure}"))
        click.echo(f"{len(played.events)} events, sha256 {judged.digest}: {_verdict(judged)}")
    return 0 if judged.clean else 1


def _replay_federation(seed: int, mutant: str, history: str | None, output: str) -> int:
    from ares.check.federation import history as history_module
    from ares.edge.cli.render.text import printable
    from ares.sim.federation import story
    from ares.sim.world import seeds

    played, judged = seeds.replay_federation(seed, mutant)
    if history is not None:
        with open(history, "wb") as file:
            file.write(history_module.encode(played.events))
    if not print_objects(output, seeds.outcome(judged), lambda _: []):
        for line in story.story(played.events, judged.violations):
            click.echo(printable(line))
        click.echo(f"{len(played.events)} events, sha256 {judged.digest}: {_verdict(judged)}")
    return 0 if judged.clean else 1


@sim.command("suspicion")
@click.option(
    "--worlds", type=click.IntRange(1, 100_000), default=4, show_default=True, help="Each some five agent-hours."
)
@click.option(
    "--load", type=click.Choice(("busy", "very bad")), default="busy", show_default=True, help="How late things are."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@output_option("table", "json")
def suspicion_(worlds: int, load: str, quiet: bool, output: str) -> None:
    """Counts healthy nodes that are taken for lost ones.

    Nothing is broken in these worlds; messages and answers of the store are only late now and then.
    """
    from ares.sim.world import suspicion

    _fixed_hashes()
    from ares.edge.cli.render.progress import Bars

    found = suspicion.NOTHING
    with Bars(["worlds"], "played", quiet=quiet or output == "json") as bars:
        for seed in range(worlds):
            found = found + suspicion.observe(suspicion.LOADS[load], seed)
            bars.show(0, seed + 1, worlds)
    if not print_objects(output, suspicion.figures(found), lambda _: []):
        click.echo(
            f"{found.agent_hours:,.1f} agent-hours, {found.renewals:,} renewals, {found.suspected:,} attempts taken: "
            f"{found.per_thousand_hours:,.1f} in 1,000 agent-hours, below {found.below:,.1f} with 95 % confidence"
        )


def _known(mutant: str, federation: bool | None = None) -> None:
    """`federation`: in such worlds only their own mutants show, and they in no other."""
    from ares.sim.mutants import mutants

    known: dict[str, Any] = mutants.MUTANTS
    names = [name for name, bug in known.items() if federation is None or bug.federation == federation]
    if mutant and mutant not in names:
        raise click.UsageError(f"there is no mutant {mutant!r}; there are: {', '.join(names)}")


def _known_case(case: str) -> None:
    from ares.sim.world import cases

    names: dict[str, Any] = cases.CASES
    if case and case not in names:
        raise click.UsageError(f"there is no directed case {case!r}; there are: {', '.join(names)}")


@sim.command("mutants")
@click.option("--only", "names", multiple=True, metavar="NAME", help="This one; may be given several times.")
@click.option(
    "--seeds", type=click.IntRange(0, 1_000_000), default=0, help="At most.  [default: each one's own budget]"
)
@click.option("--first", type=click.IntRange(0, 1 << 62), default=0, show_default=True, help="The first seed.")
@click.option("--cases", is_flag=True, help="Only the directed case or the trace of those that have one.")
@click.option("--list", "listed", is_flag=True, help="Name them, and do nothing.")
@output_option("table", "json")
def mutants_(names: tuple[str, ...], seeds: int, first: int, cases: bool, listed: bool, output: str) -> int:
    """Switches seeded bugs on, one by one: each must be noticed. Exit code 1 when one is not.

    They change the real code of the platform in this process only. One that nobody notices says that the
    worlds or the checkers are too weak, not that the platform is good.
    """
    from ares.sim import gate
    from ares.sim.mutants import mutants

    known: dict[str, Any] = mutants.MUTANTS
    for name in names:
        _known(name)
    if listed:
        rows = [
            (name, ", ".join(mutant.caught_by), mutant.shown_by or "-", mutant.what) for name, mutant in known.items()
        ]
        found = [dict(zip(("mutant", "expected", "case", "what"), row, strict=True)) for row in rows]
        if not print_objects(output, found, lambda _: []):
            _print_table(("MUTANT", "EXPECTED", "CASE", "WHAT IS WRONG"), rows)
        return 0
    outcomes: list[Any] = []
    for outcome in gate.gate(names, seeds, first=first, search=not cases):
        outcomes.append(outcome)
        if output != "json":
            click.echo(f"{outcome.mutant}: {'caught' if outcome.ok else 'NOT CAUGHT'}", err=True)
    missed = [outcome.mutant for outcome in outcomes if not outcome.ok]
    if not print_objects(output, [gate.figures(outcome) for outcome in outcomes], lambda _: []):
        rows = [
            (
                outcome.mutant,
                outcome.rule or "-",
                str(outcome.seeds or "-"),
                outcome.case or "-",
                outcome.case_rule or "-",
                outcome.what,
            )
            for outcome in outcomes
        ]
        _print_table(("MUTANT", "CAUGHT BY", "SEEDS", "CASE", "CAUGHT BY", "WHAT IS WRONG"), rows)
        click.echo(f"\n{len(outcomes) - len(missed)} of {len(outcomes)} caught")
        if missed:
            click.echo(f"nobody noticed: {', '.join(missed)}")
    return 1 if missed else 0


def _print_table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from ares.edge.cli.render.table import print_table

    print_table(titles, rows, of="mutants")


def _fixed_hashes() -> None:
    """The order of sets must be the same in every process: only a new one can have that."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        _again({**os.environ, "PYTHONHASHSEED": "0"})


def _again(environment: dict[str, str]) -> NoReturn:
    os.execve(sys.executable, [sys.executable, "-m", "ares", *sys.argv[1:]], environment)


def _verdict(judged: Any) -> str:
    return "every promise was kept" if judged.clean else f"{len(judged.violations)} broken promises"


def _print_federation(found: Any) -> None:
    from ares.check.federation import judge
    from ares.edge.cli.render.table import print_table

    titles: dict[str, str] = judge.TITLES
    rows = [(rule, title, f"{found.counts.get(rule, 0):,}") for rule, title in titles.items()]
    print_table(("RULE", "PROMISE", "TIMES TESTED"), rows, of="rules")
    told = {"jobs": "JobSubmitted", "starts": "RunBegan", "faults": "FederationFault", "restores": "StoreRestored"}
    click.echo("\n" + ", ".join(f"{found.counts.get(name, 0):,} {word}" for word, name in told.items()))
    _print_broken(found, " --federation")


def _print(found: Any) -> None:
    from ares.check.invariants import judge
    from ares.edge.cli.render.table import print_table

    rules: dict[str, Any] = judge.RULES
    rows = [(rule, title, f"{found.counts.get(rule, 0):,}") for rule, (title, _) in rules.items()]
    print_table(("RULE", "PROMISE", "TIMES TESTED"), rows, of="rules")
    told = ("commits", "jobs", "grants", "results", "losses", "processes", "freezes", "faults", "calls", "unknown")
    click.echo("\n" + ", ".join(f"{found.counts.get(name, 0):,} {name}" for name in told))
    _print_broken(found)


def _print_broken(found: Any, flag: str = "") -> None:
    click.echo(f"{found.seeds:,} worlds, {found.per_cpu_minute:,.0f} per CPU minute")
    for outcome in found.broken:
        click.echo(
            f"\nseed {outcome.seed}: {_verdict(outcome)}; `ares sim replay --seed {outcome.seed}{flag}` tells the story"
        )
        for violation in outcome.violations[:3]:
            click.echo(f"  {violation.rule} at {violation.t:.3f} s: {violation.job}: {violation.what}")
        for failure in outcome.failures[:3]:
            click.echo(f"  not caught by anybody: {failure}")
    if not found.broken:
        click.echo("0 broken promises")
