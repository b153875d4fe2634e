"""`ares ui`: the way into the dashboard."""

import os
import sys
import time

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, output_option
from ares.edge.cli.render.text import duration

_PAGES = "open-*.html"


@click.command()
@click.option("--open", "opens", is_flag=True, help="Open it in the browser of this machine.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def ui(ctx: click.Context, opens: bool, output: str) -> None:
    """Prints a link that opens the dashboard in a browser.

    It logs you in as who you are here. The link works once, for ten minutes; the session it opens lasts for twelve
    hours, or as long as what you are logged in with. Give it to no other person.

    With --open the browser is handed the link in a file that only you can read: on a command line, every
    user of the machine could read it.

    \b
      ares ui
      ares ui --open
    """
    from ares.edge.client.calls import identity

    client = connect(ctx)
    url = client.endpoint.shown.partition(",")[0].rstrip("/")
    if opens:
        made = answer(client, identity.login_link(), "table")
        if made is not None:
            _open(f"{url}{made.path}")
        return
    made = answer(client, identity.login_link(), output, lambda found: [f"{url}{found['path']}"])
    if made is None:
        return
    click.echo(f"{url}{made.path}")
    if sys.stdout.isatty():
        click.echo(f"good once, within {duration(made.expires_at - time.time())}", err=True)


def _open(link: str) -> None:
    """By a page that leads on to the link. It stays until the next one: the browser reads it when it has started, and a
    link that was used is worth nothing."""
    import html
    import secrets
    import webbrowser

    from ares.edge.client.settings import home

    folder = home()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in folder.glob(_PAGES):
        old.unlink(missing_ok=True)
    page = folder / f"open-{secrets.token_hex(8)}.html"
    text = '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Ares</title>\n'
    text += f'<meta http-equiv="refresh" content="0; url={html.escape(link)}">\n'
    # Never there with other rights than these.
    with open(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    if not webbrowser.open(page.resolve().as_uri()):
        page.unlink(missing_ok=True)
        raise click.ClickException("no browser was found here; `ares ui` prints a link for one elsewhere")
    click.echo("opened in your browser")
