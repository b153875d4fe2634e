"""`ares cluster`: clusters of a federation, at its global plane and in a cluster of it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ares.edge.cli.commands.quota import LENT
from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import output_option, show, tell
from ares.edge.cli.render.text import age, duration, printable

if TYPE_CHECKING:
    from ares.api.nodes import MemberView, UplinkView
    from ares.edge.cli.render.table import Columns


def _jobs(member: "MemberView") -> str:
    return f"{member.confirmed}" + (f" +{member.offered} offered" if member.offered else "")


def _free(member: "MemberView") -> str:
    if member.report is None:
        return "-"
    free = sum(shape.free_gpus for shape in member.report.shapes)
    return f"{free}/{sum(shape.gpus * shape.nodes for shape in member.report.shapes)}"


MEMBERS: "Columns[MemberView]" = {
    "NAME": lambda member: member.name,
    "STATE": lambda member: member.state,
    "REACH": lambda member: member.reach or "-",
    "HEARD": lambda member: "-" if member.heard_s is None else f"{duration(member.heard_s)} ago",
    "NODES": lambda member: "-" if member.report is None else f"{member.report.ready_nodes}/{member.report.nodes}",
    "GPUS": _free,
    "JOBS": _jobs,
    "REGION": lambda member: member.region or "-",
    "CODE": lambda member: member.code,
}


@click.group()
def cluster() -> None:
    """Shows and steers the clusters of a federation."""


@cluster.command()
@click.argument("api", metavar="URL")
@click.option("--name", required=True, help="What this cluster is called there; the token is for this name.")
@click.option("--token", metavar="TOKEN", help="The join token. Otherwise --token-file, or asked for.")
@click.option("--token-file", type=click.Path(path_type=Path, dir_okay=False), help="A file with the join token.")
@click.option(
    "--link", "links", metavar="HOST:PORT", multiple=True,
    help="Where the global plane takes links, each of its replicas.  [default: port 8643 of URL's host]",
)  # fmt: skip
@click.option("--region", default="", help="Where its machines are: what residency is judged by.")
@click.option(
    "--ca", type=click.Path(path_type=Path, dir_okay=False), help="Certificates that URL's own must chain to."
)
@output_option("table", "json", "yaml")
@click.pass_context
def join(
    ctx: click.Context, api: str, name: str, token: str | None, token_file: Path | None, links: tuple[str, ...],
    region: str, ca: Path | None, output: str,
) -> None:  # fmt: skip
    """Makes the server you talk to a cluster of the global plane at URL.

    The token is made there: `ares token join --cluster NAME`. What runs here goes on.
    """
    from ares.edge.client.calls import operator

    given = token or (_read(token_file) if token_file else click.prompt("join token", hide_input=True))
    body = {
        "api": api, "name": name, "token": given.strip(), "servers": list(links), "region": region,
        "authorities": _read(ca) if ca else "",
    }  # fmt: skip
    tell(
        connect(ctx),
        operator.join_global_plane(body),
        lambda view: f"joined {view.api} as {view.name}; {_mode(view)}",
        output,
    )


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read {path}: {error}") from error


@cluster.command("list")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def list_clusters(ctx: click.Context, output: str) -> None:
    """Lists the clusters of this global plane.

    UNREACHABLE says that a cluster has been silent. Its jobs stay its own, and go on there.
    """
    from ares.edge.client.calls import operator

    show(connect(ctx), operator.members(), MEMBERS, output, of="clusters")


@cluster.command("show")
@click.argument("name", metavar="NAME")
@output_option("table", "json", "yaml")
@click.pass_context
def show_cluster(ctx: click.Context, name: str, output: str) -> None:
    """Shows a cluster: what it has, and what it runs."""
    from ares.edge.client.calls import operator

    tell(connect(ctx), operator.member(name), lambda member: "\n".join(page(member)), output)


@cluster.command()
@output_option("table", "json", "yaml")
@click.pass_context
def uplink(ctx: click.Context, output: str) -> None:
    """Shows, in a cluster, how it stands with its global plane."""
    from ares.edge.client.calls import operator

    def said(view: "UplinkView") -> str:
        from ares.edge.cli.render.explanation import section

        mode = f"{view.name} of {view.api}, code {view.code or '-'}: {_mode(view)}; {view.taken} of its jobs are here"
        rows = ([shown(row) for shown in LENT.values()] for row in view.lent)
        return "\n".join((mode, *section("Quota it was lent", tuple(LENT), rows)))

    tell(connect(ctx), operator.uplink(), said, output)


@cluster.command()
@click.argument("name", metavar="NAME")
@click.option("--reason", default="", help="Why, for those whose jobs come back.")
@output_option("table", "json", "yaml")
@click.pass_context
def drain(ctx: click.Context, name: str, reason: str, output: str) -> None:
    """Offers a cluster nothing more; takes back what has not begun.

    What runs goes on to its end. With nothing left, the cluster has LEFT. `ares cluster resume` takes it back before.
    """
    from ares.edge.client.calls import operator

    tell(connect(ctx), operator.drain_member(name, reason), _after, output)


@cluster.command()
@click.argument("name", metavar="NAME")
@output_option("table", "json", "yaml")
@click.pass_context
def resume(ctx: click.Context, name: str, output: str) -> None:
    """Offers jobs to a drained cluster again."""
    from ares.edge.client.calls import operator

    tell(connect(ctx), operator.resume_member(name), _after, output)


@cluster.command()
@click.option("--force", is_flag=True, help="Although jobs of the global plane are here that have not ended.")
@output_option("table", "json", "yaml")
@click.pass_context
def leave(ctx: click.Context, force: bool, output: str) -> None:
    """Makes the server you talk to a cluster of its own again."""
    from ares.edge.client.calls import operator

    tell(connect(ctx), operator.leave_global_plane(force=force), lambda view: f"{view.name} left {view.api}", output)


@cluster.command("declare-dead")
@click.argument("name", metavar="NAME")
@click.option("--reason", required=True, help="Why it will not come back; it is recorded.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option("table", "json", "yaml")
@click.pass_context
def declare_dead(ctx: click.Context, name: str, reason: str, yes: bool, output: str) -> None:
    """Says that a cluster will not come back.

    All it had is placed anew, and what it still says is refused. Should it be alive, jobs may run twice until it hears
    of this: end its machines first.
    """
    from ares.edge.client.calls import operator

    confirm = name if yes else click.prompt(f"the name of the cluster that is dead ({name})")
    tell(connect(ctx), operator.declare_dead(name, reason, confirm), _after, output)


# ---- for people


def _after(member: "MemberView") -> str:
    return f"{member.name} is {member.state}: {_jobs(member)} jobs; {printable(member.note) or 'no note'}"


def _mode(view: "UplinkView") -> str:
    why = f" ({printable(view.why)})" if view.why else ""
    return f"{view.mode} for {duration(view.mode_s)}{why}"


def page(member: "MemberView") -> list[str]:
    """The lines of `ares cluster show`."""
    from ares.edge.cli.render.explanation import section

    report = member.report
    facts = [
        ("State", f"{member.state} for {age(member.since)}" + (f": {member.note}" if member.note else "")),
        ("Reach", member.reach + ("" if member.heard_s is None else f", heard {duration(member.heard_s)} ago")),
        ("Code", f"l{member.code}: ids of jobs that were submitted there begin with it"),
        ("Region", member.region),
        ("Jobs", _jobs(member)),
        ("Itself", "" if report is None else f"{report.mode}, {report.pending} wait, {report.running} run"),
        ("Version", "" if report is None else report.version),
    ]
    lines = [printable(member.name), *(f"  {label:<10}{printable(text)}" for label, text in facts if text)]
    rows = (
        (
            str(shape.nodes), f"{shape.free_cpu_milli / 1000:g}/{shape.nodes * shape.cpu_milli / 1000:g}",
            f"{shape.free_gpus}/{shape.nodes * shape.gpus}", shape.gpu_model or "-",
        )
        for shape in (() if report is None else report.shapes)
    )  # fmt: skip
    return [
        *lines,
        *section("Nodes", ("NODES", "CPUS FREE", "GPUS FREE", "MODEL"), rows),
        *section("Quota lent to it", tuple(LENT), ([shown(row) for shown in LENT.values()] for row in member.lent)),
    ]
