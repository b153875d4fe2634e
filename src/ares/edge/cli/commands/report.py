"""`ares report`: promises, cost and compliance over a period, for people and for files."""

import sys
from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import output_option

if TYPE_CHECKING:
    from ares.api.books.reports import ReportKind

KINDS = ("sla", "cost", "compliance")


@click.command()
@click.argument("kind", type=click.Choice((*KINDS, "check")))
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option("--first", metavar="DAY", help="The first day, as 2026-11-01.  [default: six before the last]")
@click.option("--last", metavar="DAY", help="The last day.  [default: today]")
@output_option("html", "csv", "json")
@click.option("--to", metavar="FILE", type=click.Path(dir_okay=False), help="Write it there.  [default: stdout]")
@click.pass_context
def report(
    ctx: click.Context, kind: str, file: str | None, first: str | None, last: str | None, output: str, to: str | None
) -> None:
    """Writes a report over a period: HTML that prints, CSV or JSON.

    \b
      sla         promises kept and missed, waits, what was missed by most and why
      cost        cost and energy by day, tenant, team, pool and GPU model, with what stood idle
      compliance  who may do what and did what, changes of rules, denials, audit chains
      check FILE  whether a report in JSON is as it was made, by its digest

    Days are by UTC. A report on days that are closed is the same whenever it is made, but for users
    and chains in a compliance report. Its footer has its SHA-256 and the signed audit heads of its
    time; that it was made is in the audit log. Members of a tenant get their own.
    """
    if kind == "check":
        _check(ctx, file)
        return
    from ares.edge.client.calls import reports

    wanted: ReportKind = kind  # pyright: ignore[reportAssignmentType]
    written = connect(ctx).send(reports.page(wanted, first, last, output))
    if to is None:
        sys.stdout.buffer.write(written)
        return
    with open(to, "wb") as out:
        out.write(written)
    click.echo(f"{to}: {len(written):,} bytes")


def _check(ctx: click.Context, file: str | None) -> None:
    import msgspec

    from ares.api.books.reports import PeriodReport
    from ares.core.books.pages import digest_of

    if file is None:
        raise click.UsageError("name the file: ares report check FILE", ctx)
    with open(file, "rb") as source:
        raw = source.read()
    try:
        found = msgspec.json.decode(raw, type=PeriodReport)
    except msgspec.MsgspecError as error:
        raise click.ClickException(f"{file} is no report in JSON: {error}") from None
    if digest_of(found) != found.digest:
        raise click.ClickException(
            f"{file} is not as it was made: its digest is {digest_of(found)}, it says {found.digest}"
        )
    click.echo(f"{file} is as it was made: SHA-256 {found.digest}")
