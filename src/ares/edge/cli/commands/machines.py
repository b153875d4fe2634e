"""`ares node certs` and `ares node revoke`."""

import time
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import output_option, print_objects
from ares.edge.cli.render.text import duration

if TYPE_CHECKING:
    from ares.edge.client.calls.machines import CertificateView

CERTIFICATE_HEADER = ("MACHINE", "SERIAL", "STATE", "AGE", "ENDS")


@click.command()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def certs(ctx: click.Context, output: str) -> None:
    """Lists the certificates by which machines prove themselves."""
    from ares.edge.cli.render.table import print_table
    from ares.edge.client.calls import machines

    call = machines.certificates()
    raw: Any = connect(ctx).send(call.raw())
    if not print_objects(output, raw, lambda answer: [one["serial"] for one in answer["certificates"]]):
        now = time.time()
        print_table(CERTIFICATE_HEADER, (certificate_row(one, now) for one in call.read(raw)), of="certificates")


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
    raw: Any = connect(ctx).send(call.raw())
    if not print_objects(output, raw, lambda _: []):
        done = call.read(raw)
        click.echo(f"{done.name} revoked: {done.certificates} certificates, {done.tokens} tokens")


def certificate_row(one: "CertificateView", now: float) -> tuple[str, ...]:
    ends = f"in {duration(one.ends_at - now)}" if one.ends_at > now else "-"
    state = f"revoked by {one.revoked_by}" if one.revoked_by else one.state
    return (f"{one.role} {one.name}", one.serial, state, duration(max(0.0, now - one.issued_at)), ends)
