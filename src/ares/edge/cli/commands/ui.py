"""`ares ui`: the way into the dashboard."""

import sys
import time

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, output_option
from ares.edge.cli.render.text import duration


@click.command()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def ui(ctx: click.Context, output: str) -> None:
    """Prints a link that opens the dashboard in a browser.

    It logs you in as who you are here. The link works once, for ten minutes; the session it opens lasts for twelve
    hours, or as long as what you are logged in with. Give it to no other person.

    \b
      ares ui
      xdg-open "$(ares ui -o name)"
    """
    from ares.edge.client.calls import identity

    client = connect(ctx)
    url = client.endpoint.shown.partition(",")[0].rstrip("/")
    made = answer(client, identity.login_link(), output, lambda found: [f"{url}{found['path']}"])
    if made is None:
        return
    click.echo(f"{url}{made.path}")
    if sys.stdout.isatty():
        click.echo(f"good once, within {duration(made.expires_at - time.time())}", err=True)
