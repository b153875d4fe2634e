"""Jobs as pods: a control plane, a cluster of Kubernetes, and the agent of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ares.api.jobs import JobDetail
from ares.api.nodes import NodeView
from ares.model.job import JobSpec, Resources
from ares.model.state import JobState
from tests.kubernetes import KubeCluster
from tests.platform import Platform, Process, ares, environment, eventually


class KubePlatform:
    """A control plane without a machine of its own, and a cluster of two nodes."""

    def __init__(
        self, platform: Platform, cluster: KubeCluster, *flags: str, programs: Path | None = None, bind: str = "ares",
        gpus: int = 2, settings: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`programs`: where the helper of pods is found, before all others. `settings`: of the server."""
        self.platform, self.cluster = platform, cluster
        server = platform.server(settings=settings)
        client = platform.client()
        self.client = client
        token = client.create_token(role="operator", name="kube", permissions=["nodes:admit"]).token
        kubeconfig = cluster.install(bind)
        for name in ("one", "two"):
            labels = {"topology.kubernetes.io/zone": f"zone-{name}"}
            cluster.kubelet(name, cpu="2", gpus=gpus, labels=labels, programs=programs)
        command = [
            *ares("kube-agent"), "--cluster", "k1", "--kubeconfig", str(kubeconfig), "--image", "local",
            "--server", server.agents, "--set", "kube.pull_s=1", "--bind", bind, *flags,
        ]  # fmt: skip
        env = {**environment(platform.directory / "kube"), "ARES_URL": server.url, "ARES_TOKEN": token}
        self.agent = Process("kube-agent", command, platform.directory / "kube-agent.log", env)
        platform.agents["kube-agent"] = self.agent
        self.agent.start()
        eventually(lambda: self.ready() == {"k1.one", "k1.two"}, "both nodes")

    def ready(self) -> set[str]:
        assert self.agent.alive, self.agent.tail()
        return self.ready_nodes()

    def ready_nodes(self) -> set[str]:
        return {node.name for node in self.client.nodes() if node.ready}

    def node(self, name: str) -> NodeView:
        return next(node for node in self.client.nodes() if node.name == name)

    def script(self, text: str, gpus: int = 0, **wish: Any) -> str:
        asked = Resources(cpu_milli=100, memory_mib=64, gpus=gpus)
        spec = JobSpec(command=("/bin/sh", "-c", text), resources=asked, **wish)
        return self.client.submit(spec).id

    def state(self, job: str) -> JobState:
        return self.client.get(job).state

    def runs(self, job: str) -> JobState:
        eventually(lambda: self.state(job).phase == "RUNNING", f"start of {job}", 120)
        return self.state(job)

    def ends(self, job: str, phase: str = "SUCCEEDED") -> JobDetail:
        eventually(lambda: self.state(job).phase == phase, f"{phase} of {job}")
        return self.client.get(job)

    def says(self, job: str) -> str:
        return b"".join(self.client.logs(job)).decode()

    def pod_of(self, job: str) -> dict[str, Any]:
        """The one pod of its current attempt."""
        fence = str(self.state(job).fence)
        labels = [pod for pod in self.cluster.pods() if pod["metadata"]["labels"].get("ares/job") == job]
        found = [pod for pod in labels if pod["metadata"]["labels"]["ares/fence"] == fence]
        assert len(found) == 1, [pod["metadata"]["name"] for pod in labels]
        return found[0]

    def kinds(self, job: str) -> list[str]:
        return [event.kind for event in self.client.job_events(job)]

    def emptied(self) -> None:
        eventually(lambda: not self.cluster.pods(), "the end of every pod", 120)
