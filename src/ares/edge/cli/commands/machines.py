"""`ares node certs` and `ares node revoke`."""

import time
from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import output_option, show, tell
from ares.edge.cli.render.text import age, duration

if TYPE_CHECKING:
    from ares.edge.cli.render.table import Columns
    from ares.edge.client.calls.machines import CertificateView

CERTIFICATES: "Columns[CertificateView]" = {
    "MACHINE": lambda held: f"{held.role} {held.name}",
    "SERIAL": lambda held: held.serial,
    "STATE": lambda held: f"revoked by {held.revoked_by}" if held.revoked_by else held.state,
    "AGE": lambda held: age(held.issued_at),
    "ENDS": lambda held: f"in {duration(held.ends_at - time.time())}" if held.ends_at > time.time() else "-",
}


@click.command()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def certs(ctx: click.Context, output: str) -> None:
    """Lists the certificates by which machines prove themselves."""
    from ares.edge.client.calls import machines

    show(connect(ctx), machines.certificates(), CERTIFICATES, output, of="certificates", names="serial")


@click.command()
@click.argument("name")
@click.option("--cluster", is_flag=True, help="NAME is a cluster's.")
@output_option("table", "json", "yaml")
@click.pass_context
def revoke(ctx: click.Context, name: str, cluster: bool, output: str) -> None:
    """Takes back all that a machine proves itself by.

    Within 5 seconds its stream is cut; what runs there is taken away as from a lost machine. A new
    join token lets it in again.
    """
    from ares.edge.client.calls import machines

    call = machines.revoke_cluster(name) if cluster else machines.revoke_node(name)
    tell(
        connect(ctx),
        call,
        lambda done: f"{done.name} revoked: {done.certificates} certificates, {done.tokens} tokens",
        output,
    )
