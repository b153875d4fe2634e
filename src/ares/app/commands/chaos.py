"""`ares chaos`: faults that are harmless by construction, on your own installation, and a verdict."""

import random
import sys
from pathlib import Path
from typing import Any

import click

from ares.app.commands.trace_flags import read_output
from ares.edge.cli.options import read_seconds
from ares.edge.cli.render.output import output_option, print_objects, report
from ares.edge.cli.render.text import printable

_CANNOT_RUN = 2
_SEEDS = 1_000_000


@click.command()
@click.option("--against", metavar="URL", help="The server.  [default: as --url, ARES_URL, client.json]")
@click.option(
    "--duration",
    "duration_s",
    metavar="TIME",
    default="10m",
    show_default=True,
    callback=read_seconds,
    help="Of faults.",
)
@click.option("--seed", type=click.IntRange(0, _SEEDS), help="Repeats the faults of a run.  [default: by chance]")
@click.option("--agents", type=click.IntRange(1, 16), default=3, show_default=True, help="Machines of its own.")
@click.option("--agents-at", default="", metavar="HOST:PORT", help="For agents.  [default: host of the URL, port 8643]")
@click.option("--tls-ca", type=click.Path(exists=True, dir_okay=False), help="Certificates agents trust.")
@click.option("--lease", default="9s", metavar="TIME", show_default=True, callback=read_seconds,
              help="How long the server waits for a silent machine: timing.dead_after_s.")  # fmt: skip
@click.option("--bound", "bound_s", default="10s", metavar="TIME", show_default=True, callback=read_seconds,
              help="By when it must have noticed.")  # fmt: skip
@click.option(
    "--rate",
    "jobs_per_s",
    type=click.FloatRange(0.1, 100.0),
    default=2.0,
    show_default=True,
    help="Canary jobs a second.",
)
@click.option("--history", metavar="FILE", callback=read_output, help="Write all that was seen, as JSON lines.")
@click.option("--report", "page", metavar="FILE", callback=read_output, help="Write the verdict and the story.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@output_option("table", "json")
@click.pass_context
def chaos(ctx: click.Context, history: Path | None, page: Path | None, dry_run: bool, output: str, **asked: Any) -> int:
    """Breaks things of its own, and says whether promises were kept.

    It makes a test tenant and machines of its own, as processes here, which take its own jobs only. It submits
    canary jobs and kills, freezes and cuts off those machines, kills and freezes those jobs, sends requests
    twice, drops connections, cancels and retries. Other tenants, other machines, the server and the store are
    never touched. In the end everything is removed again, also after Ctrl-C. It needs an administrator's token.

    \b
      ares chaos --duration 10m
      ares chaos --against https://ares.example:8642 --agents-at ares.example:8643 --seed 7 --report chaos.md

    Exit code 0 if every promise was kept, 1 if one was broken, 2 if it could not run.
    """
    from ares.edge.client.errors import AresError
    from ares.sim.chaos import camp as errors_module
    from ares.sim.chaos import plan, run, verdict

    module, errors = run, errors_module
    options = _options(plan.ChaosOptions, ctx.find_root().obj, **asked)
    try:
        if dry_run:
            click.echo("\n".join(module.intentions(options)))
            return 0
        with Status(f"seed {options.seed}", quiet=output == "json") as status:
            outcome = module.run(options, status.show)
    except (errors.CannotRun, AresError) as error:
        return report(str(error), getattr(error, "fix", ""), _CANNOT_RUN)
    _write(outcome, history, page)
    if not print_objects(output, _plain(outcome), lambda _: []):
        for line in verdict.summary(outcome.verdict):
            click.echo(printable(line))
    return 1 if outcome.verdict.violations else 0


def _options(
    kind: Any, url: str | None, against: str | None, seed: int | None, tls_ca: str | None, lease: float, **same: Any
) -> Any:
    return kind(
        url=against or url or "",
        seed=random.SystemRandom().randrange(_SEEDS) if seed is None else seed,
        tls_ca=str(Path(tls_ca).absolute()) if tls_ca else "",
        lease_s=lease,
        **same,
    )


def _plain(outcome: Any) -> dict[str, Any]:
    import msgspec

    return {"passed": not outcome.verdict.violations, **msgspec.to_builtins(outcome.verdict)}


def _write(outcome: Any, history: Path | None, page: Path | None) -> None:
    from ares.check.invariants import history as history_module
    from ares.sim.chaos import verdict

    if history is not None:
        history.write_bytes(history_module.encode(outcome.events))
    if page is not None:
        page.write_text(verdict.page(outcome.verdict, outcome.events))


class Status:
    """One line on a terminal, overwritten as it goes on; elsewhere a line whenever the words change. On stderr."""

    def __init__(self, title: str, *, quiet: bool) -> None:
        self._title = title
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._last = ""

    def __enter__(self) -> "Status":
        return self

    def __exit__(self, *error: object) -> None:
        if self._terminal and self._last:
            sys.stderr.write("\r\x1b[K")

    def show(self, words: str) -> None:
        # Numbers change all the time; a log has no use for each of them.
        shape = "".join(char for char in words if not char.isdecimal()).strip()
        if self._quiet or (not self._terminal and shape == self._last):
            return
        self._last = shape
        sys.stderr.write(f"\r\x1b[K{self._title}: {words}" if self._terminal else f"{self._title}: {words}\n")
        sys.stderr.flush()
