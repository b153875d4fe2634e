"""Jobs as pods: the agent of a cluster whose API server is a stand-in, kubelets whose pods are processes, and Ares."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ares.core.kube.pod import pod_name
from ares.model.base import AttemptRef
from ares.model.job import Gang, Image, RetryPolicy
from tests.kube_platform import KubePlatform
from tests.kubernetes import NAMESPACE, StandInCluster
from tests.platform import Platform, eventually

pytestmark = pytest.mark.slow

# Waits for a file, so that a test says when it ends.
_UNTIL = "echo begun; while [ ! -e {file} ]; do sleep 0.05; done; echo over"


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubePlatform]:
    folder: Path = tmp_path_factory.mktemp("kube")
    with StandInCluster(folder / "cluster") as cluster, Platform(folder / "ares", warm=True) as platform:
        yield KubePlatform(platform, cluster)


def test_a_job_runs_as_a_pod_and_leaves_its_log_exit_code_and_result(kube: KubePlatform) -> None:
    job = kube.script('echo "hello from $ARES_NODE"; echo \'{"loss": 1}\' > "$ARES_RESULT_FILE"')
    ended = kube.ends(job)
    assert ended.result is not None
    assert ended.result.value == {"loss": 1}
    assert "hello from k1." in kube.says(job)
    failed = kube.ends(kube.script("echo bad; exit 7", retry=RetryPolicy(limit=0)), "FAILED").state
    assert failed.exit is not None
    assert (failed.exit.code, failed.exit.failure) == (7, "exit")
    kube.emptied()


def test_nodes_say_what_the_cluster_leaves_them(kube: KubePlatform) -> None:
    """Another's pod takes room, a cordon keeps jobs away, and topology and GPUs are Ares' own."""
    cluster = kube.cluster

    def said() -> tuple[int, str, int, bool]:
        node = kube.node("k1.one").info
        return node.cpu_milli, node.zone, len(node.gpus), node.fences

    # A pod that has just ended has given its room back when the agent says so, at its next report.
    eventually(lambda: said() == (2000, "zone-one", 2, False), "all of its room")
    container = {"name": "c", "image": "local", "resources": {"requests": {"cpu": "500m"}}, "command": ["sleep", "600"]}
    stranger = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger", "namespace": "default"},
        "spec": {"nodeName": "one", "containers": [container], "automountServiceAccountToken": False,
                 "terminationGracePeriodSeconds": 1},
    }  # fmt: skip
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    cluster.apply(account)
    cluster.call("POST", "/api/v1/namespaces/default/pods", stranger)
    eventually(lambda: kube.node("k1.one").info.cpu_milli == 1500, "room less what the stranger asks for")
    cluster.call("DELETE", "/api/v1/namespaces/default/pods/stranger")
    eventually(lambda: kube.node("k1.one").info.cpu_milli == 2000, "its room again")
    merge = "application/merge-patch+json"
    for cordoned in (True, False):
        cluster.call("PATCH", "/api/v1/nodes/one", {"spec": {"unschedulable": cordoned}}, merge)
        eventually(lambda cordoned=cordoned: bool(kube.node("k1.one").info.taints) == cordoned, "the cordon")


def test_a_cancelled_job_ends_by_the_deletion_of_its_pod(kube: KubePlatform, tmp_path: Path) -> None:
    job = kube.script(f"trap 'echo told; exit 0' TERM; {_UNTIL.format(file=tmp_path / 'never')}", grace_s=20)
    kube.runs(job)
    eventually(lambda: "begun" in kube.says(job), "its first line, while it runs")
    kube.client.cancel(job)
    kube.ends(job, "CANCELLED")
    kube.emptied()
    assert "told" in kube.says(job)


def test_a_pod_that_is_deleted_by_hand_costs_no_retry(kube: KubePlatform, tmp_path: Path) -> None:
    job = kube.script(_UNTIL.format(file=tmp_path / "go"), retry=RetryPolicy(limit=0), grace_s=1)
    before = kube.runs(job)
    name = kube.pod_of(job)["metadata"]["name"]
    kube.cluster.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
    eventually(
        lambda: kube.state(job).fence > before.fence and kube.state(job).phase == "RUNNING", "its next attempt", 120
    )
    (tmp_path / "go").touch()
    ended = kube.ends(job).state
    assert (ended.attempt, ended.preemptions, dict(ended.retries)) == (2, 1, {})
    kube.emptied()


def test_an_eviction_of_kubernetes_is_a_preemption(kube: KubePlatform, tmp_path: Path) -> None:
    job = kube.script(
        f"trap 'exit 0' TERM; {_UNTIL.format(file=tmp_path / 'go')}", retry=RetryPolicy(limit=0), grace_s=1
    )
    before = kube.runs(job)
    name = kube.pod_of(job)["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
    kube.cluster.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction", eviction)
    eventually(
        lambda: kube.state(job).fence > before.fence and kube.state(job).phase == "RUNNING", "its next attempt", 120
    )
    (tmp_path / "go").touch()
    kube.ends(job)
    assert "preempted" in kube.kinds(job)
    kube.emptied()


def test_an_image_that_cannot_be_had_fails_after_its_own_limit(kube: KubePlatform) -> None:
    job = kube.script("true", image=Image(ref="docker://missing"), retry=RetryPolicy(limit=0))
    ended = kube.ends(job, "FAILED").state
    assert ended.exit is not None
    assert (ended.exit.failure, "no such image" in ended.exit.message) == ("staging", True)
    kube.emptied()


def test_a_gang_is_bound_whole_and_knows_its_ranks(kube: KubePlatform) -> None:
    job = kube.script('echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR"', gang=Gang(ranks=3))
    kube.ends(job)
    said = [b"".join(kube.client.logs(job, rank=rank)).decode().strip() for rank in range(3)]
    assert [line.split(" at ")[0] for line in said] == [f"rank {rank} of 3" for rank in range(3)]
    assert all(line.endswith(f".ares-ranks.{NAMESPACE}.svc") for line in said), said
    kube.emptied()


def test_the_agent_and_the_api_server_may_die_meanwhile(kube: KubePlatform, tmp_path: Path) -> None:
    """No attempt is repeated and no line is lost, whichever of them is away when the job ends."""
    for dies in ("agent", "api"):
        text = f"for i in 1 2 3; do echo before $i; done; {_UNTIL.format(file=tmp_path / dies)}; exit 3"
        job = kube.script(text, retry=RetryPolicy(limit=0))
        before = kube.runs(job)
        eventually(lambda job=job: "begun" in kube.says(job), "its first lines")
        if dies == "agent":
            kube.agent.kill()
        else:
            kube.cluster.kill_api()
        (tmp_path / dies).touch()
        if dies == "agent":
            eventually(lambda job=job: kube.pod_of(job)["status"]["phase"] == "Failed", "the end of its pod")
            kube.agent.start()
        else:
            kube.cluster.start_api()
        ended = kube.ends(job, "FAILED").state
        assert ended.exit is not None
        assert (ended.exit.code, ended.fence, ended.attempt) == (3, before.fence, 1)
        assert kube.says(job).splitlines() == ["before 1", "before 2", "before 3", "begun", "over"]
    kube.emptied()


def test_a_stranger_with_the_pods_name_is_left_alone(kube: KubePlatform, tmp_path: Path) -> None:
    """The agent stands still while the stranger takes the name that the attempt's pod will have."""
    kube.agent.pause()
    job = kube.script("true", retry=RetryPolicy(limit=0))
    bound = eventually(lambda: ((s := kube.state(job)).phase == "STAGING" and s) or None, "its place", 120)
    name = pod_name(AttemptRef(job=job, tenant=bound.tenant, fence=bound.fence), 0)
    container = {"name": "c", "image": "local"}
    stranger = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"schedulerName": "nobody", "containers": [container]}}  # fmt: skip
    made = kube.cluster.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", stranger)
    kube.agent.resume()
    ended = kube.ends(job).state
    # It met the stranger: this attempt was given up, and the next one has another name.
    assert (ended.fence > bound.fence, dict(ended.retries)) == (True, {})
    found = kube.cluster.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert "deletionTimestamp" not in found["metadata"]
    kube.cluster.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
    kube.emptied()


def test_a_pod_of_a_silent_node_is_not_said_to_be_gone_before_its_node_is_deleted(
    kube: KubePlatform, tmp_path: Path
) -> None:
    job = kube.script(_UNTIL.format(file=tmp_path / "go"), retry=RetryPolicy(limit=1, base_s=0.1))
    before = kube.runs(job)
    pod = kube.pod_of(job)
    node = pod["spec"]["nodeName"]
    kube.cluster.kubelets[node].pause()
    try:
        # By hand, and without a kubelet to say that it ended.
        kube.cluster.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}")
        other = kube.script("true", selector={"kubernetes.io/hostname": "two" if node == "one" else "one"})
        kube.ends(other)
        assert (kube.state(job).phase, kube.state(job).fence) == ("RUNNING", before.fence)
        kube.cluster.call("DELETE", f"/api/v1/nodes/{node}")
        eventually(lambda: kube.state(job).fence > before.fence, "its next attempt", 120)
        (tmp_path / "go").touch()
        assert kube.ends(job).state.retries == {"node-lost": 1}
    finally:
        # The tests share the cluster, in any order: the next one finds both nodes again.
        kube.cluster.kubelets[node].kill()
        kube.cluster.kubelet(node)
    eventually(lambda: kube.ready() == {"k1.one", "k1.two"}, "both nodes again")
    kube.emptied()
