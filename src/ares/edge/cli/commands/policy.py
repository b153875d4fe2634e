"""`ares policy`: rules over submitted jobs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.options import read_pairs, read_seconds
from ares.edge.cli.render.output import output_option, print_objects, show, tell
from ares.edge.cli.render.text import age, printable

if TYPE_CHECKING:
    from ares.api.policies import Tried
    from ares.edge.cli.render.table import Columns
    from ares.edge.client.calls.calls import Call
    from ares.model.policy import PolicyRecord

_WHEN_CHARS = 48
_KEYS = ("name", "when", "action", "message", "set", "enabled")
F = TypeVar("F", bound=Callable[..., Any])


def _when(record: "PolicyRecord") -> str:
    when = " ".join(record.when.split())
    return when if len(when) <= _WHEN_CHARS else f"{when[:_WHEN_CHARS]}..."


POLICIES: "Columns[PolicyRecord]" = {
    "NAME": lambda record: record.name,
    "WHOSE": lambda record: record.tenant or "platform",
    "VERSION": lambda record: str(record.version),
    "ACTION": lambda record: record.action,
    "ON": lambda record: "yes" if record.enabled else "no",
    "WHEN": _when,
    "BY": lambda record: record.by,
    "AGE": lambda record: age(record.at),
}
_platform = click.option("--platform", is_flag=True, help="For every tenant; for those who run the platform.")
_note = click.option("--note", default="", help="Why, for those who look at the versions.")


def _rule(command: F) -> F:
    """The flags that describe a policy."""
    options = (
        click.option("-f", "--file", "file", metavar="FILE", help="YAML, TOML or JSON; - is standard input."),
        click.option("--when", metavar="CEL", help="What jobs it is about: 'job.gpus > 8'."),
        click.option("--action", type=click.Choice(["reject", "warn", "set", "alert"]), help="What happens to them."),
        click.option("--message", metavar="TEXT", help="What the submitter or the channel is told."),
        click.option(
            "--set", "sets", multiple=True, metavar="FIELD=CEL", callback=read_pairs,
            help="For action set: timeLimitS=3600.0. May be repeated.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def policy() -> None:
    """Shows, tries and changes policies: rules over submitted jobs.

    A policy is an expression in CEL and what happens to jobs it is true of. It is checked when it is saved, and in
    force at once. docs/concepts/policies.md has all names and ten worked rules.
    """


@policy.command("list")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def list_(ctx: click.Context, output: str) -> None:
    """Lists policies in the order they are applied."""
    from ares.edge.client.calls import policies

    show(connect(ctx), policies.policies(), POLICIES, output, of="policies")


@policy.command("show")
@click.argument("name")
@click.option("--history", is_flag=True, help="Every version that is kept, the newest first.")
@_platform
@output_option("table", "json", "yaml")
@click.pass_context
def show_policy(ctx: click.Context, name: str, history: bool, platform: bool, output: str) -> None:
    """Prints a policy, or with --history its versions."""
    from ares.edge.client.calls import policies

    if history:
        versions = policies.policy_versions(name, platform=platform)
        tell(connect(ctx), versions, lambda records: "\n".join(map(_page, records)), output)
    else:
        tell(connect(ctx), policies.policy(name, platform=platform), _page, output)


@policy.command("set")
@click.argument("name", required=False)
@_rule
@click.option("--off", is_flag=True, help="Keep it, but do not apply it yet.")
@click.option("--if-version", type=int, metavar="N", help="Only if it is at this version; 0: only if it is new.")
@_platform
@_note
@output_option("table", "json", "yaml", "name")
@click.pass_context
def set_(
    ctx: click.Context, name: str | None, off: bool, if_version: int | None, platform: bool, note: str, output: str,
    **flags: Any,
) -> None:  # fmt: skip
    """Makes or changes a policy. It is in force at once.

    \b
      ares policy set no-huge --when 'job.gpus > 64' --action reject --message 'ask the operators first'
      ares policy set limits --when 'job.time_limit_s == 0.0' --action set --set timeLimitS=86400.0
      ares policy set -f policy.yaml
    """
    from ares.edge.client.calls import policies

    rule = _read(flags)
    named = name or str(rule.pop("name", ""))
    rule.pop("name", None)
    if not named:
        raise click.UsageError("say the policy's name, or write it into the file", ctx)
    if off:
        rule["enabled"] = False
    call = policies.put_policy(named, rule, platform=platform, note=note, expected_version=if_version)
    _told(ctx, call, output)


@policy.command()
@_rule
@output_option("table", "json", "yaml")
@click.pass_context
def check(ctx: click.Context, output: str, **flags: Any) -> None:
    """Says what is wrong with a policy, and where.

    Exit code 0 if it could be saved, 1 if not.
    """
    from ares.edge.client.calls import policies

    call = policies.check_policy(_draft(flags))
    raw: Any = connect(ctx).send(call.raw())
    if not print_objects(output, raw, lambda _: []):
        found = call.read(raw)
        for mistake in found.mistakes:
            hint = f"; {mistake.hint}" if mistake.hint else ""
            click.echo(
                printable(f"{mistake.field}, line {mistake.line}, column {mistake.column}: {mistake.message}{hint}")
            )
        if found.ok:
            click.echo("it could be saved")
    ctx.exit(0 if raw["ok"] else 1)


@policy.command("try")
@_rule
@click.option("--since", metavar="TIME", callback=read_seconds, help="Only jobs submitted within: 7d.")
@click.option("--limit", type=click.IntRange(1, 2000), metavar="N", help="Of the newest jobs.  [default: 500]")
@_platform
@output_option("table", "json", "yaml", "name")
@click.pass_context
def try_(ctx: click.Context, since: float | None, limit: int | None, platform: bool, output: str, **flags: Any) -> None:
    """Says what a policy would have made of recent jobs."""
    from ares.edge.client.calls import policies

    call = policies.try_policy(_draft(flags), platform=platform, since_s=since, limit=limit)
    tell(connect(ctx), call, _tried, output, lambda answer: [*answer["jobs"], *answer["failedJobs"]])


@policy.command()
@click.argument("name")
@_platform
@_note
@output_option("table", "json", "yaml", "name")
@click.pass_context
def enable(ctx: click.Context, name: str, platform: bool, note: str, output: str) -> None:
    """Applies a policy again."""
    from ares.edge.client.calls import policies

    _told(ctx, policies.switch_policy(name, on=True, platform=platform, note=note), output)


@policy.command()
@click.argument("name")
@_platform
@_note
@output_option("table", "json", "yaml", "name")
@click.pass_context
def disable(ctx: click.Context, name: str, platform: bool, note: str, output: str) -> None:
    """Keeps a policy, but does not apply it."""
    from ares.edge.client.calls import policies

    _told(ctx, policies.switch_policy(name, on=False, platform=platform, note=note), output)


@policy.command()
@click.argument("name")
@click.argument("version", type=click.IntRange(1))
@_platform
@_note
@output_option("table", "json", "yaml", "name")
@click.pass_context
def revert(ctx: click.Context, name: str, version: int, platform: bool, note: str, output: str) -> None:
    """Puts an old version in force again, as a new one."""
    from ares.edge.client.calls import policies

    _told(ctx, policies.revert_policy(name, version, platform=platform, note=note), output)


@policy.command()
@click.argument("name")
@_platform
@click.pass_context
def delete(ctx: click.Context, name: str, platform: bool) -> None:
    """Takes a policy back, with its versions."""
    from ares.edge.client.calls import policies

    connect(ctx).send(policies.delete_policy(name, platform=platform))
    click.echo(f"{name} is gone")


def _read(flags: dict[str, Any]) -> dict[str, Any]:
    """A file's keys, and over them what flags say."""
    import json

    from ares.edge.cli.job_flags import read_job_file

    rule: dict[str, Any] = {} if not flags["file"] else {**read_job_file(flags["file"])}
    unknown = next((key for key in rule if key not in _KEYS), None)
    if unknown is not None:
        raise click.ClickException(f"{flags['file']}: {unknown!r} is nothing of a policy; known: {', '.join(_KEYS)}")
    if isinstance(sets := rule.get("set"), dict):
        # YAML reads 3600.0 as a number and true as a truth: both are expressions here.
        rule["set"] = {key: value if isinstance(value, str) else json.dumps(value) for key, value in sets.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    rule |= {key: flags[key] for key in ("when", "action", "message") if flags[key]}
    return {**rule, "set": flags["sets"]} if flags["sets"] else rule


def _draft(flags: dict[str, Any]) -> dict[str, Any]:
    rule = _read(flags)
    rule.pop("enabled", None)
    return rule


def _tried(found: "Tried") -> str:
    lists = (("jobs", found.jobs), ("no answer for", found.failed_jobs))
    named = (f"{title}: {' '.join(jobs)}" for title, jobs in lists if jobs)
    return "\n".join((found.text, *named, *((printable(found.why_failed),) if found.why_failed else ())))


def _told(ctx: click.Context, call: "Call[PolicyRecord]", output: str) -> None:
    def words(saved: "PolicyRecord") -> str:
        return f"{saved.name} is at version {saved.version}{'' if saved.enabled else ', not applied'}"

    tell(connect(ctx), call, words, output)


def _page(record: "PolicyRecord") -> str:
    facts = [
        ("Whose", record.tenant or "platform"), ("Version", str(record.version)),
        ("Applied", "yes" if record.enabled else "no"),
        ("When", " ".join(record.when.split())), ("Action", record.action), ("Message", record.message),
        ("Set", ", ".join(f"{path} = {text}" for path, text in record.set.items())),
        ("By", record.by), ("Note", record.note),
    ]  # fmt: skip
    return "\n".join((record.name, *(f"  {label:<10}{printable(text)}" for label, text in facts if text)))
