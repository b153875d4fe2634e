"""`ares alert` and `ares channel`: alerts, and the channels that deliver them."""

import sys
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import output_option, show, tell
from ares.edge.cli.render.text import age, printable

if TYPE_CHECKING:
    from ares.api.alerts import ChannelView, SavedChannel
    from ares.edge.cli.render.table import Columns
    from ares.model.alert import AlertRecord


def _sent(alert: "AlertRecord") -> str:
    arrived = sum(sent.arrived_at is not None and sent.episode == alert.episode for sent in alert.sent.values())
    failed = sum(sent.given_up for sent in alert.sent.values())
    return f"{arrived}" + (f", {failed} given up" if failed else "")


ALERTS: "Columns[AlertRecord]" = {
    "ID": lambda alert: alert.id,
    "SEVERITY": lambda alert: alert.severity,
    "STATE": lambda alert: alert.state,
    "KIND": lambda alert: alert.kind,
    "SUBJECT": lambda alert: alert.subject,
    "COUNT": lambda alert: str(alert.count),
    "LAST": lambda alert: age(alert.last_at),
    "SENT": _sent,
    "TEXT": lambda alert: alert.text,
}
CHANNELS: "Columns[ChannelView]" = {
    "NAME": lambda channel: channel.name,
    "KIND": lambda channel: channel.kind,
    "WHERE": lambda channel: channel.where,
    "SEVERITY": lambda channel: channel.severity,
    "KINDS": lambda channel: ", ".join(channel.kinds) or "all",
    "ON": lambda channel: "yes" if channel.enabled else "no",
}

_platform = click.option("--platform", is_flag=True, help="The platform's own; for those who run it.")
_note = click.option("--note", default="", help="What was done about it.")


@click.group()
def alert() -> None:
    """Lists alerts and says who sees to them."""


@alert.command("list")
@click.option("--all", "every", is_flag=True, help="Also those that are over.")
@_platform
@output_option("table", "json", "yaml", "name")
@click.pass_context
def list_alerts(ctx: click.Context, every: bool, platform: bool, output: str) -> None:
    """Lists alerts, the newest first."""
    from ares.edge.client.calls import alerts

    show(connect(ctx), alerts.alerts(platform=platform, every=every), ALERTS, output, of="alerts", names="id")


@alert.command()
@click.argument("alert_id", metavar="ID")
@_platform
@_note
@click.pass_context
def ack(ctx: click.Context, alert_id: str, platform: bool, note: str) -> None:
    """Says that somebody sees to an alert."""
    from ares.edge.client.calls import alerts

    found = connect(ctx).send(alerts.acknowledge_alert(alert_id, platform=platform, note=note))
    click.echo(f"{found.id} is acknowledged")


@alert.command()
@click.argument("alert_id", metavar="ID")
@_platform
@_note
@click.pass_context
def resolve(ctx: click.Context, alert_id: str, platform: bool, note: str) -> None:
    """Says that an alert is over; should it come again, it is new."""
    from ares.edge.client.calls import alerts

    found = connect(ctx).send(alerts.resolve_alert(alert_id, platform=platform, note=note))
    click.echo(f"{found.id} is resolved")


@click.group()
def channel() -> None:
    """Says where alerts are sent: webhooks and e-mail."""


@channel.command("list")
@_platform
@output_option("table", "json", "yaml", "name")
@click.pass_context
def list_channels(ctx: click.Context, platform: bool, output: str) -> None:
    """Lists channels; of a webhook's URL only the host."""
    from ares.edge.client.calls import alerts

    show(connect(ctx), alerts.channels(platform=platform), CHANNELS, output, of="channels")


@channel.command("set")
@click.argument("name")
@click.option("--webhook", metavar="URL", help="Where to send; - reads it from standard input.")
@click.option("--email", "to", multiple=True, metavar="ADDRESS", help="Whom to write to. May be repeated.")
@click.option("--severity", type=click.Choice(["info", "warning", "critical"]), default="info", show_default=True,
              help="Only alerts at least so severe.")  # fmt: skip
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only alerts of this kind. May be repeated.")
@click.option("--all-tenants", is_flag=True, help="With --platform: also the tenants' alerts.")
@click.option("--off", is_flag=True, help="Keep it, but send nothing.")
@_platform
@output_option("table", "json", "yaml", "name")
@click.pass_context
def set_channel(ctx: click.Context, name: str, output: str, platform: bool, **flags: Any) -> None:
    """Makes or changes a channel.

    \b
      ares channel set ops --webhook - < slack-url.txt
      ares channel set ops-mail --email ops@example.com --severity critical

    The secret that signs a webhook's requests is drawn and printed once.
    """
    from ares.edge.client.calls import alerts

    if bool(flags["webhook"]) == bool(flags["to"]):
        raise click.UsageError("say either --webhook or --email", ctx)
    url = sys.stdin.readline().strip() if flags["webhook"] == "-" else flags["webhook"] or ""
    body = {
        "kind": "webhook" if url else "email", "url": url, "to": list(flags["to"]), "severity": flags["severity"],
        "kinds": list(flags["kinds"]), "allTenants": flags["all_tenants"], "enabled": not flags["off"],
    }  # fmt: skip
    call = alerts.put_channel(name, body, platform=platform)
    tell(connect(ctx), call, _saved, output, lambda answer: [answer["channel"]["name"]])


@channel.command()
@click.argument("name")
@_platform
@click.pass_context
def test(ctx: click.Context, name: str, platform: bool) -> None:
    """Sends a test notice, and says whether it arrived."""
    from ares.edge.client.calls import alerts

    found = connect(ctx).send(alerts.test_channel(name, platform=platform))
    if not found.arrived:
        raise click.ClickException(f"it did not arrive: {found.error}")
    click.echo("it arrived")


@channel.command("delete")
@click.argument("name")
@_platform
@click.pass_context
def delete_channel(ctx: click.Context, name: str, platform: bool) -> None:
    """Sends nothing there any more."""
    from ares.edge.client.calls import alerts

    connect(ctx).send(alerts.delete_channel(name, platform=platform))
    click.echo(f"{name} is gone")


def _saved(saved: "SavedChannel") -> str:
    signed = f"\nits requests are signed with {saved.secret}; this is not shown again" if saved.secret else ""
    return f"{saved.channel.name} sends to {printable(saved.channel.where)}{signed}"
