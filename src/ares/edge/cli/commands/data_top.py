"""`ares data top`: who moves which bytes now."""

import sys
import time
from typing import TYPE_CHECKING, Final

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.options import read_seconds
from ares.edge.cli.render.output import answer, output_option

if TYPE_CHECKING:
    from ares.api.quotas import BreakerRow, TransferRow, TransfersView
    from ares.edge.cli.render.table import Columns

_CLEAR: Final = "\x1b[H\x1b[2J"
_MB: Final = 1_000_000


def _rate(size: float) -> str:
    return f"{size / _MB:,.1f} MB/s"


def _of_tenant(row: "TransferRow") -> str:
    return "" if row.tenant_bytes_per_s is None else _rate(row.tenant_bytes_per_s)


TRANSFERS: "Columns[TransferRow]" = {
    "NODE": lambda row: row.node,
    "TENANT": lambda row: row.tenant,
    "WHAT": lambda row: row.kind,
    "RATE": lambda row: _rate(row.bytes_per_s),
    "WAITING": lambda row: f"{row.waiting_bytes / _MB:,.1f} MB" if row.waiting_bytes else "",
    "OF TENANT": _of_tenant,
}
BREAKERS: "Columns[BreakerRow]" = {
    "NODE": lambda row: row.node,
    "TENANT": lambda row: row.tenant,
    "STAYS AWAY FROM": lambda row: row.endpoint,
    "STATE": lambda row: row.phase,
}


@click.command()
@click.option("--once", is_flag=True, help="Print it once.")
@click.option(
    "--every", metavar="TIME", default="2s", show_default=True, callback=read_seconds, help="How often to look."
)
@output_option("table", "json", "yaml", "name")
@click.pass_context
def top(ctx: click.Context, once: bool, every: float, output: str) -> None:
    """Shows who moves what now, by node and tenant: files, images.

    Most first, with what waits for its turn and what the tenant may move on all nodes together. Below that, servers
    that requests stay away from because too many failed, and jobs that wait for them. On a terminal it goes on until
    Ctrl-C; otherwise, and with --once or another output, it is printed once.
    """
    from ares.edge.client.calls import quotas

    client = connect(ctx)
    while True:
        found = answer(client, quotas.transfers(), output, lambda view: [row["tenant"] for row in view["transfers"]])
        if found is None:
            return
        live = sys.stdout.isatty() and not once
        if live:
            click.echo(_CLEAR, nl=False)
        _print(found)
        if not live:
            return
        time.sleep(max(0.2, every))


def _print(found: "TransfersView") -> None:
    from ares.edge.cli.render.table import print_records
    from ares.edge.cli.render.text import printable

    print_records(TRANSFERS, found.transfers, of="transfers")
    if found.breakers:
        click.echo("")
        print_records(BREAKERS, found.breakers, of="breakers")
    for paused in found.paused:
        click.echo(f"job {printable(paused.job)} waits for {printable(paused.endpoint)}")
