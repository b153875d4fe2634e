"""`ares nodes`, with the certificates of machines, and `ares lease`."""

import time
from typing import TYPE_CHECKING

import click

from ares.edge.cli.commands.drain import drain, rm, taint, undrain, untaint
from ares.edge.cli.connect import connect, find_job, job_argument
from ares.edge.cli.render.output import output_option, print_objects, show, tell
from ares.edge.cli.render.text import age, cpus, duration, memory

if TYPE_CHECKING:
    from ares.api.identity import CertificateView
    from ares.api.nodes import ClusterView, LeaseView, NodeView
    from ares.edge.cli.render.table import Columns
    from ares.model.node import Gpu


def _mock(node: "NodeView") -> str:
    """Mock GPUs are called so wherever they are counted."""
    return " mock" if any(gpu.vendor == "mock" for gpu in node.info.gpus) else ""


def _state(node: "NodeView") -> str:
    closed = "DRAINED" if node.drained_by else "CORDONED" if node.cordoned else ""
    return ",".join(word for word in ("READY" if node.ready else "LOST", closed) if word)


NODES: "Columns[NodeView]" = {
    "NAME": lambda node: node.name,
    "STATE": _state,
    "POOL": lambda node: node.info.pool,
    "RUNNING": lambda node: str(node.running),
    "CPUS": lambda node: f"{cpus(node.cpu_milli_free)}/{cpus(node.info.cpu_milli)}",
    "MEMORY": lambda node: f"{memory(node.memory_mib_free)}/{memory(node.info.memory_mib)}",
    "GPUS": lambda node: f"{node.gpus_free}/{len(node.info.gpus)}{_mock(node)}",
    "LEASE": lambda node: "-" if node.lease_age_s is None else f"{duration(node.lease_age_s)} ago",
}
NODES_WIDE: "Columns[NodeView]" = {
    **NODES,
    "MODEL": lambda node: ", ".join(dict.fromkeys(gpu_name(gpu) for gpu in node.info.gpus)),
    "ISOLATION": lambda node: f"{node.info.isolation_level}:{','.join(node.info.isolation)}",
    "AGENT": lambda node: node.info.agent_version,
    "LABELS": lambda node: ",".join(f"{key}={value}" for key, value in node.info.labels.items()),
    "TAINTS": lambda node: ",".join(
        f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
        for taint in (*node.info.taints, *node.taints)
    ),
}
LEASES: "Columns[LeaseView]" = {
    "JOB": lambda lease: lease.job,
    "STATE": lambda lease: lease.phase,
    "ATTEMPT": lambda lease: str(lease.attempt),
    "FENCE": lambda lease: lease.fence,
    "NODE": lambda lease: lease.node,
    "HELD": lambda lease: duration(lease.held_s),
    "EXPIRES": lambda lease: "" if lease.expires_in_s is None else f"in {lease.expires_in_s:.0f}s unless renewed",
}
CERTIFICATES: "Columns[CertificateView]" = {
    "MACHINE": lambda held: f"{held.role} {held.name}",
    "SERIAL": lambda held: held.serial,
    "STATE": lambda held: f"revoked by {held.revoked_by}" if held.revoked_by else held.state,
    "AGE": lambda held: age(held.issued_at),
    "ENDS": lambda held: f"in {duration(held.ends_at - time.time())}" if held.ends_at > time.time() else "-",
}


@click.group(invoke_without_command=True)
@output_option()
@click.pass_context
def nodes(ctx: click.Context, output: str) -> None:
    """Lists the machines, and says who leads them. CPUS, MEMORY and GPUS are free/total."""
    if ctx.invoked_subcommand is not None:
        return
    from ares.edge.client.calls import operator

    client = connect(ctx)
    found = show(client, operator.nodes(), NODES_WIDE if output == "wide" else NODES, output, of="nodes")
    if found is not None:
        from ares.edge.cli.findings import of_nodes

        for finding in of_nodes(found):
            if finding.status == "warning" and finding.check != "nodes":
                click.echo(finding.message)
        for cluster in client.clusters():
            click.echo(led_by(cluster))


@nodes.command("show")
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show_node(ctx: click.Context, name: str, output: str) -> None:
    """Shows one machine, and how well jobs are kept apart on it."""
    from ares.edge.cli.render.text import printable
    from ares.edge.client.calls import operator

    call = operator.nodes()
    raw = connect(ctx).send(call.raw())
    found = [(shown, seen) for shown, seen in zip(raw["nodes"], call.read(raw), strict=True) if seen.name == name]
    if not found:
        raise click.ClickException(f"there is no node {name}; see `ares nodes`")
    if not print_objects(output, found[0][0], lambda node: [node["name"]]):
        for title, text in node_lines(found[0][1]):
            if text:
                click.echo(f"{title + ':':<15}{printable(text)}")


@nodes.command()
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def cordon(ctx: click.Context, name: str, output: str) -> None:
    """Keeps new jobs off a machine. What runs there goes on."""
    from ares.edge.client.calls import operator

    call = operator.cordon(name, on=True)
    tell(connect(ctx), call, lambda node: f"{node.name} cordoned; {node.running} running", output)


@nodes.command()
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def uncordon(ctx: click.Context, name: str, output: str) -> None:
    """Lets new jobs on a machine again."""
    from ares.edge.client.calls import operator

    tell(connect(ctx), operator.cordon(name, on=False), lambda node: f"{node.name} uncordoned", output)


@nodes.command()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def certs(ctx: click.Context, output: str) -> None:
    """Lists the certificates by which machines prove themselves."""
    from ares.edge.client.calls import operator

    show(connect(ctx), operator.certificates(), CERTIFICATES, output, of="certificates", names="serial")


@nodes.command()
@click.argument("name")
@click.option("--cluster", is_flag=True, help="NAME is a cluster's.")
@output_option("table", "json", "yaml")
@click.pass_context
def revoke(ctx: click.Context, name: str, cluster: bool, output: str) -> None:
    """Takes back all that a machine proves itself by.

    Within 5 seconds its stream is cut; what runs there is taken away as from a lost machine. A new
    join token lets it in again.
    """
    from ares.edge.client.calls import operator

    call = operator.revoke_cluster(name) if cluster else operator.revoke_node(name)
    tell(
        connect(ctx),
        call,
        lambda done: f"{done.name} revoked: {done.certificates} certificates, {done.tokens} tokens",
        output,
    )


for command in (drain, undrain, taint, untaint, rm):
    nodes.add_command(command)
# The same for one: `ares node drain gpu-07` reads better.
node = nodes


@click.command()
@job_argument(required=False)
@output_option("table", "json", "yaml", "name")
@click.pass_context
def lease(ctx: click.Context, job: str | None, output: str) -> None:
    """Lists who holds the right to run what.

    EXPIRES is when the control plane takes the job away unless its machine renews the lease.
    """
    from ares.edge.client.calls import operator

    client = connect(ctx)
    call = operator.leases(find_job(client, job) if job else None)
    show(client, call, LEASES, output, of="leases", names="job")


def gpu_name(gpu: "Gpu") -> str:
    return f"mock {gpu.model}" if gpu.vendor == "mock" else gpu.model


def led_by(cluster: "ClusterView") -> str:
    """The control plane in a line, with how old everything is."""
    led = f"led by {cluster.leader} for {duration(cluster.leader_age_s or 0.0)}" if cluster.leader else "nobody leads"
    return f"{cluster.id}: {led}; the store was heard of {duration(cluster.store_age_s)} ago"


def node_lines(node: "NodeView") -> tuple[tuple[str, str], ...]:
    from ares.model.isolation import shortfall

    info = node.info
    place = ", ".join(text for text in (info.rack, info.zone, info.region) if text)
    return (
        ("Node", node.name),
        ("State", _state(node)),
        ("Pool", info.pool),
        ("Running", f"{node.running} jobs"),
        ("CPUs", f"{cpus(node.cpu_milli_free)} free of {cpus(info.cpu_milli)}"),
        ("Memory", f"{memory(node.memory_mib_free)} free of {memory(info.memory_mib)}"),
        ("GPUs", f"{node.gpus_free} free of {len(info.gpus)}{_mock(node)}" if info.gpus else ""),
        ("Place", place),
        ("Isolation", info.isolation_level),
        ("Kept apart by", ", ".join(info.sandbox or info.isolation)),
        ("Not apart", shortfall(info.sandbox)),
        ("Agent", f"{info.agent_version} on {info.hostname}, kernel {info.kernel}"),
    )
