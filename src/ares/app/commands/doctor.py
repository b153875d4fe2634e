"""`ares doctor`: what is not real, not enforced or not well here, and how to mend it."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.findings import Finding, of_nodes, of_server, of_transfers
from ares.edge.cli.render.output import output_option, print_objects

if TYPE_CHECKING:
    from ares.edge.client.sync import Client

_COLOURS = {"ok": "green", "note": "cyan", "warning": "yellow", "failed": "red"}
# Of its log that are looked through for why a platform ended: what is further up may be of an earlier one.
_LINES = 8


@click.command()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def doctor(ctx: click.Context, output: str) -> int:
    """Says what is not real, not enforced or not well.

    Each with how to mend it.
    It looks at the server (reachable, ready, its disk and clock), at your credential, and at the machines: those that
    are silent, GPUs that are mock, jobs without sandboxes, limits of memory and CPU that are not enforced. The exit
    code is 1 when something failed; notes and warnings leave it at 0. `-o name` prints the checks that are not ok.
    """
    found = examine(ctx)
    answer = {"findings": [finding._asdict() for finding in found]}
    if not print_objects(output, answer, lambda _: [finding.check for finding in found if finding.status != "ok"]):
        for line in lines(found):
            click.echo(line)
    return 1 if any(finding.status == "failed" for finding in found) else 0


def lines(found: list[Finding]) -> list[str]:
    """A line for each finding, and one for what to do about it."""
    from ares.edge.cli.render.text import printable, use_colour

    shown: list[str] = []
    for finding in found:
        status = f"{finding.status:<8}"
        status = click.style(status, fg=_COLOURS[finding.status]) if use_colour() else status
        shown.append(f"{status} {finding.check:<11} {printable(finding.message)}")
        shown += [f"{'':<20} fix: {printable(finding.fix)}"] if finding.fix else []
    return shown


def examine(ctx: click.Context) -> list[Finding]:
    """The server first: without it there is no more to be known."""
    from ares.edge.client.errors import AresError

    try:
        client = connect(ctx)
        checks = client.readiness()
    except AresError as error:
        return [Finding("server", "failed", str(error), getattr(error, "fix", "")), *_own_platform()]
    found = [
        Finding("server", "ok", f"{client.endpoint.shown} answers and takes work"),
        *of_server(checks, time.time()),
    ]
    return found + _of_access(client) + _of_machines(client)


def _of_access(client: "Client") -> list[Finding]:
    from ares.edge.client.errors import AresError

    try:
        who = client.whoami()
    except AresError as error:
        return [Finding("credential", "failed", str(error), getattr(error, "fix", "") or "`ares login`")]
    return [Finding("credential", "ok", f"you are {who.name or who.user or who.token_id} of {who.tenant}: {who.role}")]


def _of_machines(client: "Client") -> list[Finding]:
    from ares.edge.client.errors import AresError

    try:
        return [*of_nodes(client.nodes()), *of_transfers(client.transfers())]
    except AresError as error:
        return [Finding("nodes", "note", f"machines were not looked at: {error}", getattr(error, "fix", ""))]


def _own_platform() -> list[Finding]:
    """What `ares up` of this home directory does, if that is the server that is missed."""
    from ares.app.up import LOG_FILE, is_up, last_error
    from ares.edge.client.settings import home

    folder = Path(home())
    log = folder / LOG_FILE
    if not log.exists():
        return []
    if is_up(folder):
        return [
            Finding("platform", "failed", f"`ares up` runs for {folder}, and its server does not serve", f"see {log}")
        ]
    error = last_error(log, within=_LINES)
    said = f"; the last that it said: {error}" if error else ""
    fix = (error.fix if error else "") or "`ares up` starts it"
    return [Finding("platform", "failed", f"no platform runs for {folder}{said}", fix)]
