"""`ares audit`: who did what, and whether that record holds."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ares.app.commands.configured import configured, load
from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, output_option, print_objects
from ares.edge.cli.render.text import printable
from ares.edge.cli.replicas import Replicas

if TYPE_CHECKING:
    from ares.api.audit import AuditMonth, AuditSummary, Happened
    from ares.edge.cli.render.table import Columns
    from ares.edge.client.calls.audit import Filters
    from ares.edge.client.sync import Client
    from ares.model.audit import AuditHead

F = TypeVar("F", bound=Callable[..., Any])
_LISTED = 50


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _who(entry: dict[str, Any]) -> str:
    who = entry["user"] or entry["token"] or "nobody"
    return f"{who} ({entry['role']})" if entry["role"] else who


# Of entries as they are in the API.
ENTRIES: "Columns[dict[str, Any]]" = {
    "TIME": lambda entry: _when(entry["at"]),
    "OUTCOME": lambda entry: entry["outcome"] + (f" x{entry['count']}" if entry["count"] > 1 else ""),
    "OPERATION": lambda entry: entry["operation"] or "-",
    "REASON": lambda entry: entry["reason"] or entry["glass"],
    "WHO": _who,
    "TENANT": lambda entry: entry["tenant"] + (f" (of {entry['home']})" if entry["home"] else ""),
    "OBJECT": lambda entry: entry["object"] or " ".join(entry["made"]),
    "FROM": lambda entry: entry["remote"],
    "CHAIN": lambda entry: f"{entry['chain']} {entry['seq']}",
}
HEADS: "Columns[AuditHead]" = {
    "CHAIN": lambda head: head.chain,
    "ENTRY": lambda head: f"{head.seq:,}",
    "SIGNED": lambda head: _when(head.at),
    "KEY": lambda head: head.key,
    "HASH": lambda head: head.hash[:16],
}


@click.group()
def audit() -> None:
    """Who did what, and whether the record of it holds."""


def _filters(command: F) -> F:
    """What to look for."""
    for option in reversed(
        (
            click.option("--who", metavar="NAME", help="A user, or a token's id."),
            click.option("--tenant", metavar="NAME", help="Acted in this tenant."),
            click.option("--operation", metavar="ID", help="Such as submitJob; docs/api.md lists them."),
            click.option("--outcome", type=click.Choice(["ALLOW", "DENY", "ERROR"]), help="How it ended."),
            click.option("--reason", metavar="WORD", help="Such as role, quota, bad_token."),
            click.option("--object", metavar="NAME", help="Such as jobs/ID, or only the id."),
            click.option("--since", metavar="TIME", help="From then on: 2026-11-01, 2026-11-01T18:00, or 7d ago."),
            click.option("--until", metavar="TIME", help="Before then."),
            click.option("--text", metavar="TEXT", help="Anywhere in the entry."),
        )
    ):
        command = option(command)
    return command


def _asked(given: dict[str, Any]) -> "Filters":
    moments = {name: _moment(name, given[name]) for name in ("since", "until") if given[name]}
    plain = {name: value for name, value in given.items() if value and name not in ("since", "until")}
    return {**plain, **moments}  # pyright: ignore[reportReturnType]


def _moment(name: str, text: str) -> float:
    from ares.edge.client.errors import InvalidSpec
    from ares.edge.client.units import seconds

    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        pass
    try:
        return time.time() - seconds(text)
    except InvalidSpec:
        raise click.BadParameter(f"{text!r} is neither a moment nor a duration", param_hint=f"--{name}") from None


@audit.command()
@_filters
@click.option("--limit", "-l", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many.")
@output_option("table", "json", "yaml")
@click.pass_context
def search(ctx: click.Context, limit: int, output: str, **given: Any) -> None:
    """Lists entries, the newest first.

    Asks every replica whose address is known. Administrators of a tenant see their own tenant's
    entries, auditors and administrators of the platform all.

    \b
      ares audit search --outcome DENY --since 1h
      ares audit search --object jobs/7k2m... -o json
    """
    found: list[dict[str, Any]] = []
    chains: list[dict[str, Any]] = []
    replicas = Replicas(ctx)
    for entries, known in replicas.ask(lambda client: _pages(client, _asked(given), limit)):
        found += entries
        chains += known
    found.sort(key=lambda entry: (entry["at"], entry["seq"]), reverse=True)
    del found[limit:]
    if not print_objects(output, {"entries": found, "chains": chains, "notAsked": replicas.unasked}, lambda _: []):
        from ares.edge.cli.render.table import print_records

        print_records(ENTRIES, found, of="entries")
    replicas.tell(chains)


def _pages(client: "Client", asked: "Filters", limit: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    from ares.edge.client.calls import audit as calls

    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = client.send(calls.search(asked, limit=min(1000, limit), cursor=cursor).raw())
        found += page["entries"]
        cursor = page["cursor"]
        if not cursor or len(found) >= limit:
            return found[:limit], page["chains"]


@audit.command()
@_filters
@click.option("--format", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True, help="Of each line.")
@click.option(
    "-f", "--file", "name", default="-", metavar="FILE", help="Where to write it.  [default: standard output]"
)
@click.pass_context
def export(ctx: click.Context, format: str, name: str, **given: Any) -> None:  # noqa: A002
    """Writes all entries that match, the oldest first.

    In CSV, cells that a spreadsheet would calculate begin with an apostrophe.
    """
    from ares.edge.client.calls import audit as calls

    chains: list[dict[str, Any]] = []
    replicas, begun = Replicas(ctx), False
    with click.open_file(name, "wb") as file:

        def copy(client: "Client") -> list[dict[str, Any]]:
            nonlocal begun
            known: list[dict[str, Any]] = client.send(calls.heads().raw())["chains"]
            # One header is enough.
            heading = begun and format == "csv"
            for piece in client.audit_export(format, **_asked(given)):
                begun = True
                file.write(piece.partition(b"\n")[2] if heading else piece)
                heading = heading and b"\n" not in piece
            return known

        for known in replicas.ask(copy):
            chains += known
    replicas.tell(chains)


@audit.command()
@click.option("--month", metavar="YYYY-MM", help="In UTC.  [default: this one]")
@click.option("--since", metavar="TIME", help="Instead of a month, from then on: 2026-11-01, or 7d ago.")
@click.option("--until", metavar="TIME", help="Before then.  [default: now]")
@click.option("--tenant", metavar="NAME", default="", help="Only of this tenant.")
@output_option("markdown", "json", "yaml")
@click.pass_context
def summary(
    ctx: click.Context, month: str | None, since: str | None, until: str | None, tenant: str, output: str
) -> None:
    """Sums up a period: done, denied, changed, and whether it holds.

    One report over every replica whose address is known; what could not be asked is said. For people
    who have to show that rules were kept: what was done and denied, who broke glass and why, who
    changed roles, quotas, policies and secrets.
    """
    from msgspec import to_builtins

    from ares.edge.client.calls import audit as calls

    if month and (since or until):
        raise click.UsageError("a month or a period: give --month, or --since and --until", ctx)
    moments = {key: _moment(key, text) for key, text in (("since", since), ("until", until)) if text}
    name = "" if moments else month or datetime.now(UTC).strftime("%Y-%m")
    call, raws, replicas = calls.month(name, tenant, **moments), list[Any](), Replicas(ctx)
    states: list[dict[str, Any]] = []
    counted: set[str] = set()
    for raw, known in replicas.ask(
        lambda replica: (replica.send(call.raw()), replica.send(calls.verified().raw())["verified"])
    ):
        here = {chain["chain"] for chain in raw["chains"] if chain["here"]}
        # Two addresses of one replica are one.
        if not here or here - counted:
            counted |= here
            raws.append(raw)
            states += known
    report = calls.merged([call.read(raw) for raw in raws])
    shown = {"summary": to_builtins(report.summary), "replicas": raws, "verified": states}
    if not print_objects(output, {**shown, "notAsked": replicas.unasked}, lambda _: []):
        click.echo("\n".join(markdown(report)))
        missing = [
            f"- {printable(replica['url'])}: not asked: {printable(replica['why'])}" for replica in replicas.unasked
        ]
        click.echo("\n".join(("## Verification", "", *(f"- {verdict(state)}" for state in states), *missing)))
    replicas.tell([chain for raw in raws for chain in raw["chains"]])


def markdown(found: "AuditMonth") -> list[str]:
    """The month as a page for people."""
    seen: AuditSummary = found.summary
    here = ", ".join(chain.chain for chain in found.chains if chain.here) or "none"
    lines = [
        f"# Audit of {seen.tenant or 'all tenants'}, {seen.month or _period(seen)}", "",
        f"Chains: {here}. Entries: {seen.entries:,}.",
        f"Policy violations: {seen.policy_violations:,}. Rejected by quota or budget: {seen.quota_rejections:,}.", "",
        "## Operations", "", "| operation | allowed | denied | failed |", "|---|---|---|---|",
    ]  # fmt: skip
    for name, outcomes in seen.operations.items():
        counts = " | ".join(f"{outcomes.get(outcome, 0):,}" for outcome in ("ALLOW", "DENY", "ERROR"))
        lines.append(f"| {_cell(name)} | {counts} |")
    lines += ["", "## Denials by reason", ""]
    lines += [f"- {_cell(reason)}: {count:,}" for reason, count in seen.denials.items()] or ["None."]
    lines += ["", "## Broken glass", "", *_listed(seen.break_glass), "", "## Changes of rules", ""]
    return [*lines, *_listed(seen.changes), ""]


def _period(seen: "AuditSummary") -> str:
    since = f"from {_when(seen.since)}" if seen.since else "from the beginning"
    return f"{since} to {_when(seen.until)}"


def _listed(happened: "tuple[Happened, ...]") -> list[str]:
    lines = [
        " ".join(("-", _when(entry.at), *map(_cell, (entry.who, entry.operation, entry.object, entry.reason)))).rstrip()
        for entry in happened[:_LISTED]
    ]
    more = [f"- and {len(happened) - _LISTED:,} more"] if len(happened) > _LISTED else []
    return [*lines, *more] or ["None."]


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|")


@audit.command()
@output_option("table", "json", "yaml")
@click.pass_context
def heads(ctx: click.Context, output: str) -> None:
    """Lists the signed heads that the store keeps.

    Keep a copy elsewhere, or have the server do so (audit.copy_to): `ares audit verify --heads FILE`
    compares with it.
    """
    from ares.edge.client.calls import audit as calls

    found = answer(connect(ctx), calls.heads(), output)
    if found is not None:
        from ares.edge.cli.render.table import print_records

        print_records(HEADS, found.heads, of="heads")


@audit.command()
@click.option("--online", is_flag=True, help="Have the servers do it, each for the chains on its disk.")
@click.option("--key", metavar="ID", help="Only what this key signed counts; `ares audit heads` shows it.")
@click.option("--heads", "copy", metavar="FILE", help="Compare with this copy of signed heads too.")
@output_option("table", "json")
@configured
@click.pass_context
def verify(ctx: click.Context, online: bool, copy: str | None, key: str | None, output: str, **where: Any) -> int:
    """Walks the chains, and finds the first broken link.

    Run it where a server runs, with the server's configuration; the server may be running. It finds
    entries that were changed, deleted, moved or put in, and compares with the signed heads in the
    store: what was cut off at the end, or deleted as a whole, is missing there.

    Exit code 0 if all chains hold, 1 if one does not, 2 if it cannot be told.
    """
    from ares.app import audit
    from ares.ports.store import StoreError

    elsewhere: list[str] = []
    untold = False
    if online:
        from ares.edge.client.calls import audit as calls

        replicas = Replicas(ctx)
        answers = list(replicas.ask(lambda client: client.send(calls.verified().raw())))
        states = [state for answer in answers for state in answer["verified"]]
        untold = bool(replicas.unasked)
        replicas.tell([chain for answer in answers for chain in answer["chains"]])
    else:
        from ares.edge.cli.render.output import report
        from ares.edge.cli.render.progress import Bars

        config = load({}, **where)
        try:
            with Bars(("pages to copy",), "done", quiet=True) as bars:
                states, elsewhere = audit.states(config, copy, key, partial(bars.show, 0))
        except (StoreError, OSError) as error:
            return report(str(error), "check the store's URL, and that this user may read the audit directory", 2)
    whole = bool(states) and all(not state["broken"] and not state["unsigned"] for state in states)
    if not print_objects(output, {"whole": whole, "verified": states}, lambda _: []):
        for state in states:
            click.echo(verdict(state))
        if not states:
            click.echo("no audit chain, and no signed head of one", err=True)
    for chain in elsewhere:
        click.echo(f"{printable(chain)}: not on this machine; verify it where it is", err=True)
    return 1 if not whole else 2 if untold else 0


def verdict(state: dict[str, Any]) -> str:
    """One chain in words."""
    name = printable(state["chain"])
    begins, ends, broken = state["begins"], state["ends"], state["broken"]
    if broken:
        missing = f"; {state['missing']:,} entries are missing" if state["missing"] else ""
        hold = f"entries {begins:,} to {broken - 1:,} hold" if broken > begins else "no entry holds"
        return f"{name}: BROKEN at entry {broken:,}: {state['why']}{missing}; {hold}"
    if state["unsigned"]:
        return f"{name}: heads without a valid signature: {', '.join(map(str, state['unsigned'][:10]))}"
    since = f", from entry {begins:,} on (older ones were removed after their time)" if begins > 1 else ""
    signed = f"signed up to {state['signed']:,}" if state["signed"] else "no signed head: a missing tail would not show"
    torn = f"; an entry at the end was never finished ({state['torn']} bytes)" if state["torn"] else ""
    return f"{name}: whole, {ends - begins + 1:,} entries{since}, {signed}{torn}"
