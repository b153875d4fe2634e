"""`ares profile` and `ares plugins`: what scheduling goes by."""

from typing import TYPE_CHECKING, Any, cast

import click

from ares.edge.cli.commands.shadow import shadow
from ares.edge.cli.connect import connect
from ares.edge.cli.options import read_pairs
from ares.edge.cli.profile_file import read_profile
from ares.edge.cli.render.output import answer, output_option, print_objects, show, tell
from ares.edge.cli.render.text import age

if TYPE_CHECKING:
    from ares.api.plugins import Plugin
    from ares.edge.cli.render.table import Columns
    from ares.edge.client.calls.calls import Call
    from ares.edge.client.sync import Client
    from ares.model.profile import Profile, ProfileRecord

VERSIONS: "Columns[ProfileRecord]" = {
    "VERSION": lambda record: str(record.version),
    "AGE": lambda record: age(record.at),
    "BY": lambda record: record.by,
    "NOTE": lambda record: record.note,
}
PLUGINS: "Columns[Plugin]" = {
    "KIND": lambda plugin: plugin.kind,
    "NAME": lambda plugin: plugin.name,
    "USED": lambda plugin: "yes" if plugin.used else "no",
    "FROM": lambda plugin: plugin.origin,
}
# Sections of a profile in the words of `ares profile set`.
_WEIGHTS = {"scorers": "weight", "order.primary": "order.primary", "order.secondary": "order.secondary"}

_note = click.option("--note", default="", help="Why, for those who look at the history.")
_expected = click.option("--expect", type=click.IntRange(0), metavar="VERSION", help="Only if this is in force now.")


@click.group()
def profile() -> None:
    """Shows and changes what scheduling goes by.

    Filters, weights, the order of jobs, shares, pools, licences and limits. A change takes effect at once on every
    replica. Every change is a version that can be brought back.
    """


profile.add_command(shadow)


@profile.command("show")
@click.argument("version", type=click.IntRange(0), required=False)
@output_option("table", "json", "yaml")
@click.pass_context
def show_profile(ctx: click.Context, version: int | None, output: str) -> None:
    """Prints the profile in force, or another VERSION.

    As settings that `ares profile set` takes.
    """
    raw = _version(connect(ctx), version)
    if not print_objects(output, raw, lambda _: []):
        record = _record(raw)
        by = f", by {record.by}" if record.by else ""
        click.echo(f"# version {record.version}{by}{f': {record.note}' if record.note else ''}")
        for key, value in flat(record.profile).items():
            click.echo(f"{key}={value}")


@profile.command()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def history(ctx: click.Context, output: str) -> None:
    """Lists the versions that are kept, the newest first."""
    from ares.edge.client.calls import operator

    none = "changes: the profile is the one that Ares comes with"
    show(connect(ctx), operator.profiles(), VERSIONS, output, of=none, names="version")


@profile.command(name="set")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...", callback=read_pairs)
@_note
@_expected
@output_option("table", "json", "yaml")
@click.pass_context
def set_(ctx: click.Context, settings: dict[str, str], note: str, expect: int | None, output: str) -> None:
    """Changes single settings.

    \b
      ares profile set weight.cost=0.3 preemption.gap=1
      ares profile set shares.alpha.weight=2 shares.alpha/vision.hard.gpu=64000
      ares profile set pools.spot.gpu_hour=0.9 order.ageing_s=3600
      ares profile set filters=+no-friday

    An empty value takes an entry away, or a field back to its default. `ares profile show` lists the keys.
    """
    from ares.edge.client.calls import operator

    _change(ctx, operator.set_profile(settings, note, expect), output)


@profile.command()
@click.option("-f", "--file", "name", required=True, metavar="FILE", help="YAML or JSON, as `show -o yaml` prints it.")
@_note
@output_option("table", "json", "yaml")
@click.pass_context
def edit(ctx: click.Context, name: str, note: str, output: str) -> None:
    """Replaces the whole profile by that in a file.

    A file that says its version is taken only while that version is in force.
    """
    from ares.edge.client.calls import operator

    whole, version = read_profile(name)
    _change(ctx, operator.put_profile(whole, note, version), output)


@profile.command()
@click.argument("version", type=click.IntRange(0))
@_note
@output_option("table", "json", "yaml")
@click.pass_context
def revert(ctx: click.Context, version: int, note: str, output: str) -> None:
    """Puts an old VERSION in force again, as a new one. 0 is what Ares comes with."""
    from ares.edge.client.calls import operator

    _change(ctx, operator.revert_profile(version, note), output)


@profile.command()
@click.argument("old", type=click.IntRange(0))
@click.argument("new", type=click.IntRange(0), required=False)
@output_option("table", "json", "yaml")
@click.pass_context
def diff(ctx: click.Context, old: int, new: int | None, output: str) -> None:
    """Prints what differs between two versions.

    Without a second one it is the one in force.
    """
    client = connect(ctx)
    before, after = flat(_record(_version(client, old)).profile), flat(_record(_version(client, new)).profile)
    keys = [key for key in dict.fromkeys((*before, *after)) if before.get(key) != after.get(key)]
    if print_objects(output, {key: {"old": before.get(key), "new": after.get(key)} for key in keys}, lambda _: []):
        return
    for key in keys:
        for sign, values in (("-", before), ("+", after)):
            if key in values:
                click.echo(f"{sign} {key}={values[key]}")


@click.command()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def plugins(ctx: click.Context, output: str) -> None:
    """Lists what a profile can name, and where it comes from."""
    from ares.edge.cli.render.table import print_records
    from ares.edge.client.calls import operator

    found = answer(
        connect(ctx), operator.plugins(), output, lambda listed: [each["name"] for each in listed["plugins"]]
    )
    if found is None:
        return
    print_records(PLUGINS, found.plugins, of="plugins")
    for plugin in found.plugins:
        if plugin.cut_off:
            click.echo(f"cut off: {plugin.kind} {plugin.name} of {plugin.origin}: {plugin.cut_off}", err=True)
    for plugin in found.refused:
        click.echo(f"refused: {plugin.kind} {plugin.name} of {plugin.origin}: {plugin.error}", err=True)
    for name in found.missing:
        click.echo(f"missing: the profile names {name!r}, which is not installed", err=True)


def _version(client: "Client", version: int | None) -> dict[str, Any]:
    from ares.edge.client.calls import operator

    if version is None:
        return client.send(operator.profile().raw())
    kept: list[dict[str, Any]] = client.send(operator.profiles().raw())["profiles"]
    # Version 0 is the built-in profile, without any change.
    kept.append({"version": 0, "profile": {}})
    found = next((row for row in kept if row["version"] == version), None)
    if found is None:
        raise click.ClickException(f"version {version} is not kept; `ares profile history` lists those that are")
    return found


def _record(raw: dict[str, Any]) -> "ProfileRecord":
    import msgspec

    from ares.model.profile import ProfileRecord

    return msgspec.convert(raw, ProfileRecord)


def _change(ctx: click.Context, call: "Call[ProfileRecord]", output: str) -> None:
    tell(
        connect(ctx),
        call,
        lambda made: f"version {made.version} is in force; `ares profile revert {made.version - 1}` takes it back",
        output,
    )


def flat(profile: "Profile") -> dict[str, str]:
    """Every setting by the name that `set` knows it by."""
    found: dict[str, str] = {}
    _flatten("", profile, found)
    return found


def _flatten(prefix: str, value: Any, found: dict[str, str]) -> None:
    import msgspec

    from ares.model.profile import Weight

    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            _flatten(f"{prefix}.{field}".lstrip("."), getattr(value, field), found)
    elif isinstance(value, dict):
        for key, item in sorted(cast("dict[str, Any]", value).items()):
            _flatten(f"{prefix}.{key}", item, found)
    elif prefix in _WEIGHTS:
        for weight in cast("tuple[Weight, ...]", value):
            found[f"{_WEIGHTS[prefix]}.{weight.name}"] = f"{weight.weight:g}"
    elif isinstance(value, tuple):
        found[prefix] = ",".join(cast("tuple[str, ...]", value))
    elif isinstance(value, bool):
        found[prefix] = str(value).lower()
    elif isinstance(value, str):
        found[prefix] = value
    elif value is not None:
        found[prefix] = f"{value:.12g}"
