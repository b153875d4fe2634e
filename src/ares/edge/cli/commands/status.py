"""`ares status`: is the platform well?"""

from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, output_option

if TYPE_CHECKING:
    from ares.api.telemetry.status import StatusPart
    from ares.edge.cli.render.table import Columns


def _age(part: "StatusPart") -> str:
    from ares.edge.cli.render.text import duration

    return "-" if part.age_s is None else duration(part.age_s)


PARTS: "Columns[StatusPart]" = {
    "": lambda part: part.verdict.upper(),
    "PART": lambda part: part.kind,
    "NAME": lambda part: part.name,
    "WHAT": lambda part: part.message,
    "AGE": _age,
}


@click.command()
@output_option("table", "json", "yaml")
@click.pass_context
def status(ctx: click.Context, output: str) -> None:
    """Says whether the platform is well, part by part.

    Leader, other replicas, store, disks, machines, certificates that end, backups that are old, records that cannot be
    read, open alerts; what is not well comes first. AGE is that of the newest sign of it. The exit code
    is 1 when a part is BAD. For operators; `ares doctor` looks at this machine too.
    """
    from ares.edge.client.calls import operator

    found = answer(connect(ctx), operator.status(), output)
    if found is None:
        return
    from ares.edge.cli.render.table import print_records

    click.echo(f"cluster {found.cluster}, by replica {found.replica}: {found.verdict.upper()}")
    print_records(PARTS, found.parts, of="parts")
    if found.left_out:
        click.echo(f"{found.left_out} more are not well")
    if found.verdict == "bad":
        ctx.exit(1)
