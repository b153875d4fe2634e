"""A real API server of Kubernetes: the contract suite on it, the rights and files that are shipped, and the guide.

One server serves the file. What it adds nothing to is in tests/e2e/test_kubernetes.py, on the stand-in.
"""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ares.app.kube.rights import AgentPod, manifest_of
from ares.model.job import JobSpec, Resources
from tests.contract.kubernetes import test_attempts as attempts
from tests.contract.kubernetes import test_machines as machines
from tests.contract.kubernetes import test_pods as pods
from tests.contract.kubernetes import test_watches as watches
from tests.documents import ROOT, blocks
from tests.kube_platform import KubePlatform
from tests.kubernetes import BUILD_S, NAMESPACE, KubeCluster, RealCluster
from tests.platform import Platform, environment, eventually, say
from tests.servers import die_with_parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_S + 300)]

client = pods.client
node = attempts.node
test_kube_scheduler_may_look_once_the_gate_is_open = attempts.test_kube_scheduler_may_look_once_the_gate_is_open
test_a_gate_is_opened_by_a_compare_and_swap = attempts.test_a_gate_is_opened_by_a_compare_and_swap
test_a_pod_that_finds_no_place_waits_again = attempts.test_a_pod_that_finds_no_place_waits_again_without_a_retry
test_a_claim_on_devices_belongs_to_its_pod = attempts.test_a_claim_on_devices_belongs_to_its_pod_and_goes_with_it
test_gpus_that_are_gone_meanwhile_cost_no_retry = attempts.test_gpus_that_are_gone_meanwhile_cost_no_retry
test_a_pod_that_was_told_to_end_is_never_bound = attempts.test_a_pod_that_was_told_to_end_is_never_bound
test_a_binding_that_is_late_finds_no_pod_to_bind = attempts.test_a_binding_that_is_late_finds_no_pod_to_bind
test_a_pod_that_is_deleted_by_hand = attempts.test_a_pod_that_is_deleted_by_hand_is_over_when_its_kubelet_says_so
test_a_pod_whose_node_is_deleted_is_lost = attempts.test_a_pod_whose_node_is_deleted_is_lost
test_a_stranger_of_the_same_name_is_left_alone = attempts.test_a_stranger_of_the_same_name_is_left_alone
test_a_finalizer_is_taken_off = attempts.test_a_finalizer_is_taken_off_although_another_hand_moves_it
test_a_name_is_taken_once = pods.test_a_name_is_taken_once
test_a_binding_is_a_compare_and_swap = pods.test_a_binding_is_a_compare_and_swap
test_what_is_being_deleted_or_gated_is_not_bound = pods.test_what_is_being_deleted_or_gated_is_not_bound
test_a_pod_is_deleted_by_its_uid = pods.test_a_pod_is_deleted_by_its_uid_and_held_by_its_finalizers
test_a_pod_on_a_node_waits_for_its_kubelet = pods.test_a_pod_on_a_node_waits_for_its_kubelet
test_an_eviction_says_what_it_is = pods.test_an_eviction_says_what_it_is
test_a_log_whose_connection_is_dead = attempts.test_a_log_whose_connection_is_dead_is_read_by_another
test_an_attempt_is_carried_on = attempts.test_an_attempt_is_carried_on_whatever_the_cluster_answers
buyer = machines.buyer
test_a_machine_is_one_pod = machines.test_a_machine_is_one_pod_from_its_creation_to_its_end
test_a_machine_is_for_no_node_that_is_there = machines.test_it_is_for_no_node_that_is_there
test_a_pod_of_that_name_is_no_machine = machines.test_a_pod_of_that_name_that_is_not_ours_is_no_machine
test_a_watch_goes_on_after_it_was_cut = watches.test_a_watch_goes_on_after_it_was_cut
test_a_change_between_list_and_watch_is_seen = watches.test_a_change_between_list_and_watch_is_seen
test_long_lists_come_in_pages = watches.test_long_lists_come_in_pages
test_an_api_server_that_dies_loses_no_change = watches.test_an_api_server_that_dies_loses_no_change
test_a_cluster_that_is_restored_is_noticed = watches.test_a_cluster_that_is_restored_is_noticed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeCluster]:
    with RealCluster(tmp_path_factory.mktemp("kube")) as cluster:
        cluster.install()
        yield cluster


# What the guide does with it: the server checks and writes, as for the real one.
_KUBECTL = """#!{python}
import sys, yaml
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.kubernetes import KubeCluster
assert sys.argv[1:3] == ["apply", "-f"], sys.argv
cluster = KubeCluster.reached({url!r}, {token!r})
for thing in yaml.safe_load_all(Path(sys.argv[3]).read_text()):
    cluster.apply(thing)
"""


def test_the_guide_as_it_is_written(cluster: KubeCluster, tmp_path: Path) -> None:
    """With the cluster of this file, a stand-in for kubectl, and an image that is the machine's own programs."""
    cluster.kubelet("one", cpu="2", gpus=2)
    with Platform(tmp_path / "platform", warm=True) as platform:
        assert "0 pods of eu1 are removed" in _follow_guide(cluster, platform, tmp_path)


def _follow_guide(cluster: KubeCluster, platform: Platform, tmp_path: Path) -> str:
    """What its last command says."""
    kubectl, program, log = tmp_path / "kubectl", tmp_path / "ares", tmp_path / "agent.log"
    kubectl.write_text(_KUBECTL.format(python=sys.executable, root=str(ROOT), url=cluster.url, token=cluster.token))
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ares "$@"\n')
    for script in (kubectl, program):
        script.chmod(0o755)
    (tmp_path / "kubeconfig").write_bytes((cluster.directory / "kubeconfig").read_bytes())
    server, operator = platform.server(), platform.client()
    env = {
        **environment(tmp_path / "home"), "PATH": f"{tmp_path}:{os.environ['PATH']}", "ARES_URL": server.url,
        "ARES_TOKEN": platform.admin_token,
    }  # fmt: skip
    job, agent, last = "", None, ""
    try:
        for block in blocks(ROOT / "docs/guides/kubernetes.md"):
            for command in block.commands():
                command = command.replace("127.0.0.1:8643", server.agents).replace("JOB", job)
                if command.endswith("&"):
                    agent = _begun(command, env, tmp_path, log)
                    eventually(lambda: [node for node in operator.nodes() if node.ready], "nodes of eu1")
                    continue
                done = subprocess.run(
                    ["sh", "-c", command],
                    env=env,
                    cwd=tmp_path,
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=False,
                )
                assert done.returncode == 0, (command, done.stderr, log.read_text() if log.exists() else "")
                last = done.stdout
                if command.startswith("ares submit"):
                    job = re.findall(r"\b[0-9a-z]{16}\b", done.stdout)[0]
                if command.startswith("ares logs"):
                    assert done.stdout.strip() == "hello from a pod"
        return last
    finally:
        if agent is not None:
            agent.terminate()
            agent.wait(60)


def _begun(command: str, env: dict[str, str], folder: Path, log: Path) -> "subprocess.Popen[bytes]":
    """What the shell would leave in the background, as a process that the test can end."""
    token = (folder / "kube.token").read_text().split()[-1]
    words = shlex.split(command.removesuffix("&"))
    words = words[words.index("ares") :]
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", *words], env={**env, "ARES_TOKEN": token}, cwd=folder, stdout=file, stderr=file,
            stdin=subprocess.DEVNULL, preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call
        )  # fmt: skip


def _rendered(text: str, values: dict[str, str]) -> str:
    """As Helm does, as far as the chart goes: values, and blocks for a way to bind."""

    def chosen(found: re.Match[str]) -> str:
        return found["then"] if values["bind"] == found["way"] else found["other"] or ""

    block = r'{{- if eq \.Values\.bind "(?P<way>\w+)" }}\n(?P<then>.*?)({{- else }}\n(?P<other>.*?))?{{- end }}\n'
    text = re.sub(block, chosen, text, flags=re.DOTALL).replace("{{ .Release.Namespace }}", NAMESPACE)
    for name, value in values.items():
        text = text.replace(f"{{{{ .Values.{name} }}}}", value)
    assert "{{" not in text
    return text


@pytest.mark.parametrize("bind", ["kube", "ares"])
def test_files_for_clusters_are_what_the_command_writes_and_the_server_takes_them(
    cluster: KubeCluster, bind: str
) -> None:
    deploy = ROOT / "deploy"
    agent = AgentPod("registry.example/ares:0.1.0", "eu1", "ares.example:8643", "https://ares.example:8642")
    written = [*yaml.safe_load_all(manifest_of(NAMESPACE, agent, bind))]
    plain = [*yaml.safe_load_all((deploy / "kubernetes/rights.yaml").read_text()),
             *yaml.safe_load_all((deploy / "kubernetes/agent.yaml").read_text())]  # fmt: skip
    chart = deploy / "helm/ares-kube-agent"
    values = {**yaml.safe_load((chart / "values.yaml").read_text()), "bind": bind}
    rendered = list[Any]()
    for template in ("rights.yaml", "agent.yaml"):
        rendered += yaml.safe_load_all(_rendered((chart / "templates" / template).read_text(), values))
    assert bind == "kube" or plain == written
    # Helm makes the namespace.
    assert rendered == written[1:]
    for thing in written:
        cluster.apply(thing)
    cluster.call("DELETE", f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/ares-kube-agent")
    # The agent may do what it does, and no more.
    with cluster.as_agent() as agent_only:
        assert agent_only.get("/api/v1/namespaces/default/secrets").status_code == 403
        assert agent_only.get(f"/api/v1/namespaces/{NAMESPACE}/secrets").status_code == 403
        assert agent_only.get("/api/v1/nodes").status_code == 200
        devices = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
        binding = f"/api/v1/namespaces/{NAMESPACE}/pods/nobody/binding"
        may = {agent_only.get("/apis/resource.k8s.io/v1/resourceslices").status_code,
               agent_only.get(f"{devices}/nobody").status_code}  # fmt: skip
        assert may == ({200, 404} if bind == "kube" else {403})
        assert (agent_only.post(binding, json={}).status_code == 403) == (bind == "kube")
    cluster.install()


_SOAK_PODS = 3000
_TINY = Resources(cpu_milli=50, memory_mib=16)


@pytest.mark.soak
@pytest.mark.timeout(5400)
def test_thousands_of_pods_while_the_api_server_is_killed_twice(cluster: KubeCluster, tmp_path: Path) -> None:
    """Created, bound, run and collected: each ran once, left its one line, and nothing is left of them."""
    marks = tmp_path / "marks"
    marks.mkdir()
    with Platform(tmp_path / "platform", warm=True) as platform:
        kube = KubePlatform(platform, cluster)
        text = f'echo "$ARES_FENCE" >> {marks}/"$ARES_ARRAY_INDEX"'
        spec = JobSpec(command=("/bin/sh", "-c", text), resources=_TINY, array=f"0-{_SOAK_PODS - 1}")
        began = time.monotonic()
        array = kube.client.submit(spec).id
        for killed_at in (_SOAK_PODS // 3, 2 * _SOAK_PODS // 3):
            eventually(lambda at=killed_at: len(os.listdir(marks)) >= at, f"{killed_at} pods", 1800)
            cluster.kill_api()
            cluster.start_api()
        eventually(lambda: len(os.listdir(marks)) == _SOAK_PODS, "all pods", 1800)
        ended = {"SUCCEEDED": _SOAK_PODS}
        eventually(lambda: _counts(kube, array) == ended, "all ends", 600)
        say(f"{_SOAK_PODS / (time.monotonic() - began):.1f} pods/s, two restarts of the API server among them")
        assert all(len(mark.read_text().split()) == 1 for mark in marks.iterdir())
        kube.emptied()


def _counts(kube: KubePlatform, array: str) -> dict[str, int]:
    counts = kube.client.get(array).array_counts or {}
    return {phase: count for phase, count in counts.items() if count}
