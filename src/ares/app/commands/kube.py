"""`ares kube-agent` and `ares kube`."""

from importlib.util import find_spec
from typing import Any

import click

from ares.app.commands.configured import configured, load


def _needs_extra() -> None:
    if find_spec("lightkube") is None:
        raise click.ClickException("it needs the extra kube: pip install 'ares-platform[kube]'")


@click.command("kube-agent")
@click.option("--cluster", metavar="CODE", help="Short name of the cluster: begins its nodes' names; never changes.")
@click.option("--namespace", metavar="NAME", help="Where jobs' pods are.  [default: ares]")
@click.option("--kubeconfig", metavar="FILE", help="[default: KUBECONFIG, then the pod's service account]")
@click.option("--image", metavar="NAME", help="For jobs that name none; without it such jobs are not placed there.")
@click.option(
    "--bind", type=click.Choice(("ares", "kube")),
    help="What binds pods: this agent, or kube-scheduler, which gives GPUs by claims too.  [default: ares]",
)  # fmt: skip
@click.option("--helper", metavar="IMAGE", help="Image with Ares in it, for a helper in each pod; with --door.")
@click.option("--door", metavar="HOST:PORT", help="Where pods reach this agent.")
@click.option("--pool", help="Pool its nodes belong to.  [default: default]")
@click.option(
    "--server", "servers", multiple=True, metavar="HOST:PORT",
    help="Control plane. May be repeated.  [default: 127.0.0.1:8643]",
)  # fmt: skip
@configured
def kube_agent(
    cluster: str | None, namespace: str | None, kubeconfig: str | None, image: str | None, bind: str | None,
    helper: str | None, door: str | None, pool: str | None, servers: tuple[str, ...], **where: Any,
) -> int:  # fmt: skip
    """Runs jobs as pods of a Kubernetes cluster.

    It admits the cluster's nodes by ARES_URL and ARES_TOKEN: a token that may `nodes:admit` and nothing else will do.
    When it is stopped, pods go on; the next one takes them over.
    """
    _needs_extra()
    from ares.app.kube import agent

    flags = {
        "kube.code": cluster, "kube.namespace": namespace, "kube.kubeconfig": kubeconfig, "kube.image": image,
        "kube.bind": bind, "kube.pool": pool, "kube.helper": helper, "kube.door": door,
        "node.servers": list(servers) or None,
    }  # fmt: skip
    return agent.main(load(flags, **where))


@click.group()
def kube() -> None:
    """Sets a Kubernetes cluster up for an agent, and clears it."""


@kube.command()
@click.option("--namespace", metavar="NAME", default="ares", show_default=True, help="Where jobs' pods are.")
@click.option("--image", metavar="NAME", help="Image with Ares in it: the agent itself is written too.")
@click.option(
    "--bind", type=click.Choice(("ares", "kube")), default="ares", show_default=True, help="As for the agent."
)
@click.option("--autoscaler", is_flag=True, help="Rights of servers whose pools buy nodes of this cluster, too.")
@click.option("--cluster", metavar="CODE", help="With --image: short name of the cluster.")
@click.option("--server", metavar="HOST:PORT", help="With --image: the control plane's port for agents.")
@click.option("--url", metavar="URL", help="With --image: the control plane's API.")
def manifest(
    namespace: str, image: str | None, bind: str, autoscaler: bool, cluster: str | None, server: str | None,
    url: str | None,
) -> None:  # fmt: skip
    """Writes what the agent needs there, for `kubectl apply -f -`.

    The namespace, a service account and its rights, which are the least that will do; with --image, the agent itself.
    """
    from ares.app.kube.rights import AgentPod, manifest_of

    if image and not (cluster and server and url):
        raise click.UsageError("--image needs --cluster, --server and --url, too")
    agent = AgentPod(image, cluster or "", server or "", url or "") if image else None
    click.echo(manifest_of(namespace, agent, bind, autoscaler=autoscaler), nl=False)


@kube.command(hidden=True)
@click.argument("what", type=click.Choice(("stage", "collect")))
def helper(what: str) -> int:
    """Runs in pods: asks leave to start, stages files, hands them over."""
    from ares.app.kube import pod_helper

    return pod_helper.main(what)


@kube.command()
@click.option("--cluster", metavar="CODE", help="Short name of the cluster, as its agent has it.")
@click.option("--namespace", metavar="NAME", help="Where jobs' pods are.  [default: ares]")
@click.option("--kubeconfig", metavar="FILE", help="[default: KUBECONFIG, then the pod's service account]")
@click.option("--yes", is_flag=True, help="Do it. Without this the pods are only listed.")
@configured
def uninstall(
    cluster: str | None, namespace: str | None, kubeconfig: str | None, yes: bool, **where: Any
) -> int:  # fmt: skip
    """Deletes the pods that an agent left, and their finalizers.

    For a cluster that Ares leaves for good: its agent must be stopped. Exits and logs that were not collected are lost.
    """
    _needs_extra()
    from ares.app.kube import rights

    flags = {"kube.code": cluster, "kube.namespace": namespace, "kube.kubeconfig": kubeconfig}
    return rights.uninstall(load(flags, **where), yes)
