"""`ares port-forward`: a port of a running job on this machine."""

import click

from ares.edge.cli.connect import connect, find_job, job_argument
from ares.edge.cli.options import rank_option


def _ports(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[tuple[int, int]]:
    """8888, 9999:8888 or :8888, as the port here and the port in the job; 0 here takes a free one."""
    found = list[tuple[int, int]]()
    for value in values:
        here, colon, there = value.rpartition(":")
        try:
            remote = int(there)
            local = int(here or 0) if colon else remote
        except ValueError:
            raise click.BadParameter(f"{value!r} is not PORT or LOCAL:PORT", ctx, param) from None
        if not 0 < remote < 65_536 or not 0 <= local < 65_536:
            raise click.BadParameter(f"{value!r}: ports are numbers up to 65535", ctx, param)
        found.append((local, remote))
    return found


@click.command("port-forward")
@rank_option
@job_argument()
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]PORT...", callback=_ports)
@click.pass_context
def port_forward(ctx: click.Context, job: str, ports: list[tuple[int, int]], rank: int) -> None:
    """Makes ports of a running job reachable on this machine.

    \b
      ares port-forward JOB 8888
      ares port-forward JOB 9000:8888 :6006

    Only on 127.0.0.1, and only ports on which a process of the job itself listens. It goes on until Ctrl-C; a
    connection that breaks on its way is made again.
    """
    import asyncio
    import contextlib

    from ares.edge.cli.forwarding import forwarded

    job_id = find_job(connect(ctx), job)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(forwarded(ctx, job_id, ports, rank))
