"""A federation of real processes: a global plane, two clusters with an agent each, and links that the test cuts."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from ares.edge.client.errors import NotFound
from ares.edge.client.sync import Client
from ares.model.job import JobSpec, Resources
from tests.documents import ROOT, blocks, placed
from tests.federation import Federation
from tests.federation_storm import Storm
from tests.platform import Platform, eventually

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "guides" / "federation.md"


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with Federation(tmp_path_factory.mktemp("federation")) as federation:
        federation.cluster("alpha")
        federation.cluster("beta")
        yield federation


def shell(script: str, **fields: object) -> JobSpec:
    return JobSpec(command=("sh", "-c", script), **fields)  # pyright: ignore[reportArgumentType]


def phase(client: Client, job: str) -> str:
    return client.get(job).state.phase


def becomes(client: Client, job: str, *phases: str) -> None:
    eventually(lambda: phase(client, job) in phases or None, f"{job} {' or '.join(phases)}")


def owner(client: Client, job: str) -> str:
    found = client.get(job).state.owner
    return "" if found is None else found.cluster


def test_jobs_run_in_clusters_once_and_all_of_them_comes_back(fed: Federation) -> None:
    plane = fed.plane.client()
    script = "echo hello from $ARES_JOB_ID; echo 42 > $ARES_OUTPUT_DIR/answer; echo '{\"n\": 1}' > $ARES_RESULT_FILE"
    go = fed.plane.directory / "go-once"
    # None ends before all are placed: one cluster has room for two of them.
    until = f"{script}; while [ ! -e {go} ]; do sleep 0.1; done"
    one = Resources(gpus=1, cpu_milli=100, memory_mib=64)
    jobs = [plane.submit(shell(until, name=f"job-{n}", resources=one)).id for n in range(4)]
    for job in jobs:
        becomes(plane, job, "RUNNING")
    go.touch()
    for job in jobs:
        becomes(plane, job, "SUCCEEDED")
    # Herd-free: what was offered counts before the next report says so.
    assert {owner(plane, job) for job in jobs} == {"alpha", "beta"}
    job = jobs[0]
    detail = plane.get(job)
    assert detail.result is not None
    assert detail.result.value == {"n": 1}
    kinds = [event.kind for event in plane.job_events(job)]
    assert kinds == ["submitted", "offered", "confirmed", "bound", "started", "succeeded"]
    assert [event.seq for event in plane.job_events(job)] == list(range(1, 7))
    # Log and files are the cluster's, and are read through to it.
    assert fed.plane.cli("logs", job).out == f"hello from {job}\n"
    listed = plane.outputs(job)
    assert [file.path for file in listed.files] == ["answer"]
    assert b"".join(plane.output(job, "answer")) == b"42\n"
    there = fed.clusters[owner(plane, job)].client().get(job).state
    assert (there.attempt, there.phase) == (1, "SUCCEEDED")


def test_cancel_and_what_is_steered_reach_the_owner(fed: Federation) -> None:
    plane = fed.plane.client()
    job = plane.submit(shell("echo on; exec sleep 1000", name="long")).id
    becomes(plane, job, "RUNNING")
    cluster = fed.clusters[owner(plane, job)].client()
    refused = fed.plane.cli("hold", job)
    assert (refused.code, "only a job that waits can be held" in refused.err) == (1, True)
    told = fed.plane.cli("explain", job, "-o", "json").json()["routing"]
    ranked = told["decision"]["ranked"]
    assert (ranked[0]["cluster"], len(ranked), told["flip"]["cluster"]) == (
        owner(plane, job),
        2,
        ranked[1]["cluster"],
    )
    assert "Terms, in seconds and money" in fed.plane.cli("explain", job).out
    planned = fed.plane.cli("plan", "--", "true")
    assert (planned.code, "it would go to cluster" in planned.out) == (0, True)
    assert fed.plane.cli("cancel", job).code == 0
    assert phase(plane, job) == "CANCELLED"
    becomes(cluster, job, "CANCELLED")
    eventually(lambda: not plane.get(job).state.lingering or None, "word that nothing of it is left")


def test_a_command_a_terminal_and_files_reach_the_process_in_its_cluster(fed: Federation, tmp_path: Path) -> None:
    plane = fed.plane.client()
    job = plane.submit(shell("echo in > here; exec sleep 1000", name="entered")).id
    becomes(plane, job, "RUNNING")
    cluster = fed.clusters[owner(plane, job)]
    # Input and output in order, both larger than what may be on its way at once, and the exit code.
    big = "x" * 3_000_000
    echoed = fed.plane.cli("exec", "-i", job, "--", "sh", "-c", "cat; echo done >&2; exit 7", text=big)
    assert (echoed.code, echoed.out == big) == (7, True), echoed.err
    assert "done" in echoed.err
    # Files both ways.
    (tmp_path / "up").write_text("carried")
    assert fed.plane.cli("cp", str(tmp_path / "up"), f"{job}:up").code == 0
    assert fed.plane.cli("cp", f"{job}:up", str(tmp_path / "down")).code == 0
    assert (tmp_path / "down").read_text() == "carried"
    # Recorded at both ends.
    for at in (fed.plane, cluster):
        entries = at.cli("audit", "search", "--object", f"jobs/{job}", "-o", "json").json()["entries"]
        assert {"openSession", "attachSession"} <= {entry["operation"] for entry in entries}
    # For another tenant there is no such job.
    fed.plane.cli("tenant", "create", "other")
    stranger = fed.plane.client(token=plane.create_token(tenant="other").token)
    with pytest.raises(NotFound):
        stranger.sessions(job)
    fed.wires[owner(plane, job)].cut()
    eventually(lambda: "has the answer" in fed.plane.cli("exec", job, "--", "true").err or None, "no way to it")
    fed.wires[owner(plane, job)].mend()
    eventually(lambda: fed.plane.cli("exec", job, "--", "true").code == 0 or None, "the way back")
    assert fed.plane.cli("cancel", job).code == 0
    becomes(cluster.client(), job, "CANCELLED")


def test_what_no_cluster_can_run_waits_and_says_so(fed: Federation) -> None:
    plane = fed.plane.client()
    job = plane.submit(shell("true", name="huge", resources=Resources(gpus=64))).id
    assert phase(plane, job) == "PENDING"
    told = fed.plane.cli("explain", job).out
    assert "NO_CLUSTER: no cluster can take it: alpha: none of its 1 kinds of machines has 1 cores, 64 GPUs" in told
    assert "beta" in told.split("Clusters that do not come into question")[1]
    # The same in the list, and before it is submitted.
    assert plane.get(job).waiting.code == "NO_CLUSTER"
    planned = fed.plane.cli("plan", "--gpus", "64", "-o", "json", "--", "true")
    assert (planned.code, planned.json()["reason"]["code"]) == (3, "NO_CLUSTER")
    assert [no["code"] for no in planned.json()["routing"]["decision"]["refused"]] == ["too-large", "too-large"]
    assert fed.plane.cli("cancel", job).code == 0


def test_a_cluster_that_is_cut_off_goes_on_and_nothing_is_lost_or_doubled(fed: Federation) -> None:
    plane = fed.plane.client()
    job = plane.submit(shell("echo begin; sleep 3; echo end", name="through-the-cut")).id
    becomes(plane, job, "RUNNING")
    name = owner(plane, job)
    alone = fed.clusters[name]
    fed.wires[name].cut()
    local = alone.client().submit(shell("echo alone", name="local"), request_id="twice").id
    becomes(alone.client(), job, "SUCCEEDED")
    becomes(alone.client(), local, "SUCCEEDED")
    eventually(lambda: fed.mode(name) == "AUTONOMOUS" or None, "autonomy")
    # Silence moves nothing, and is named.
    assert (phase(plane, job), owner(plane, job)) == ("RUNNING", name)
    eventually(lambda: "UNREACHABLE" in fed.plane.cli("cluster", "list").out or None, "UNREACHABLE")
    unread = fed.plane.cli("logs", job)
    assert (unread.code, f"cluster {name} has the answer" in unread.err) == (1, True)
    # The same request meanwhile at the global plane: another job, which the other cluster runs.
    twin = plane.submit(shell("echo alone", name="local"), request_id="twice").id
    becomes(plane, twin, "SUCCEEDED")
    assert owner(plane, twin) not in ("", name)
    fed.wires[name].mend()
    eventually(lambda: fed.mode(name) == "FEDERATED" or None, "the end of reconciling")
    becomes(plane, job, "SUCCEEDED")
    eventually(lambda: phase(plane, local) == "SUCCEEDED" or None, "the local job at the global plane")
    assert fed.plane.cli("logs", job).out == "begin\nend\n"
    assert plane.get(job).state.attempt == 1
    first = plane.job_events(local)[0]
    assert first.reason == f"DUPLICATE of {twin}: submitted in cluster {name} too"
    assert fed.plane.cli("logs", local).out == "alone\n"


def test_links_that_break_under_load_lose_and_double_nothing(fed: Federation) -> None:
    storm = Storm(fed, ("alpha", "beta"), seed=1)
    storm.limit(jobs=6, lend=0.2)
    try:
        storm.blow(20.0, fault_s=(0.3, 2.5), pause_s=0.3)
        storm.judge()
    finally:
        # The tests after this one have the same federation.
        fed.plane.client().unset_quota("default")


def test_a_drained_cluster_gives_back_what_has_not_begun(fed: Federation) -> None:
    plane = fed.plane.client()
    script = "while [ ! -e $GO ]; do sleep 0.1; done"
    go = Path(fed.plane.directory) / "go"
    both = Resources(gpus=2, cpu_milli=100, memory_mib=64)
    env = {"GO": str(go)}
    blockers = [plane.submit(shell(script, name=f"b-{n}", env=env, resources=both)).id for n in range(2)]
    for job in blockers:
        becomes(plane, job, "RUNNING")
    waits = plane.submit(shell("true", name="waits", resources=both)).id
    eventually(lambda: owner(plane, waits) or None, "an owner")
    name = owner(plane, waits)
    assert "IN_CLUSTER" in str(plane.get(waits).waiting)
    assert fed.plane.cli("cluster", "drain", name, "--reason", "new switches").code == 0
    eventually(lambda: owner(plane, waits) not in ("", name) or None, "another owner")
    assert "gave it back" in " ".join(event.reason for event in plane.job_events(waits))
    go.touch()
    becomes(plane, waits, "SUCCEEDED")
    eventually(lambda: fed.state(name) == "LEFT" or None, "its leave")
    # Tests run in any order on these two: the name joins again, as the next generation.
    cluster = fed.clusters[name]
    eventually(lambda: cluster.cli("cluster", "leave").code == 0 or None, "nothing of the global plane's there")
    fed.join(name, cluster)
    assert fed.state(name) == "ACTIVE"


def test_a_cluster_that_is_declared_dead_loses_its_jobs_to_another(tmp_path: Path) -> None:
    with Federation(tmp_path / "dead") as fed:
        fed.cluster("gone")
        plane = fed.plane.client()
        job = plane.submit(shell("echo here; sleep ${NAP:-1000}", name="moves")).id
        becomes(plane, job, "RUNNING")
        fed.wires["gone"].cut()
        fed.cluster("fresh")
        before = plane.get(job).state.fence
        mistaken = fed.plane.cli("cluster", "declare-dead", "gone", "--reason", "burned down", text="other\n")
        assert mistaken.code == 1
        dead = fed.plane.cli("cluster", "declare-dead", "gone", "--reason", "burned down", "--yes")
        assert dead.code == 0, dead
        eventually(lambda: owner(plane, job) == "fresh" or None, "another owner")
        becomes(plane, job, "RUNNING")
        assert plane.get(job).state.fence > before
        # It was alive after all: what it says is refused, and it is told to go.
        fed.wires["gone"].mend()
        eventually(lambda: "leave --force" in fed.clusters["gone"].cli("cluster", "uplink").out or None, "a refusal")
        assert owner(plane, job) == "fresh"
        assert fed.plane.cli("cancel", job).code == 0
        assert fed.clusters["gone"].cli("cancel", job).code == 0


def test_the_guide_as_it_is_written(tmp_path: Path) -> None:
    """Every command, at the global plane or in the cluster as the page says, with real addresses and the real token."""
    with Federation(tmp_path / "guide") as fed:
        cluster = fed.bare("alpha")
        token = ""
        for block in blocks(PAGE):
            at: Platform = cluster if block.text.startswith("# in the cluster") else fed.plane
            for command in block.commands():
                own = command.replace("https://global.example.org:8642", fed.plane.servers[0].url).replace(
                    "TOKEN", token
                )
                own += f" --link {fed.plane.servers[0].agents}" if "cluster join" in own else ""
                words = shlex.split(placed(own, lambda at=at: at.cli("jobs", "--limit", "1", "-o", "name").out.strip()))
                if "declare-dead" in command:
                    # It has left by now: the name joins again, as the next generation.
                    eventually(lambda: cluster.cli("cluster", "uplink").code == 1 or None, "no uplink")
                    fed.join("alpha", cluster)
                done = at.cli(*words[1:])
                assert done.code == 0, (block.name, command, done)
                if "token join" in command:
                    token = re.findall(r"ares_\S+", done.out)[0] if "ares_" in done.out else done.out.split()[-1]
                if "cluster join" in command:
                    eventually(lambda: fed.is_heard("alpha") or None, "a report")
                if "--name local" in command:
                    job = at.cli("jobs", "--limit", "1", "-o", "name").out.strip()
                    assert job.startswith("l001")
                    becomes(fed.plane.client(), job, "SUCCEEDED")
        assert fed.state("alpha") == "DEAD"
