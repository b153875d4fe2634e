"""`ares submit`: flags, files, waiting and exit codes."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ares.api.jobs import JobDetail
from ares.edge.cli.commands.wait import exit_code, status
from ares.edge.client.reader import read
from tests.unit.edge.client.stub import JOB, Say, Stub, detail, event, problem, state

Ares = Callable[..., Any]
CREATED = Say({"id": JOB, "replayed": False, "tasks": 1, "links": {}}, 201)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def taking(stub: Stub) -> Stub:
    stub.on("POST", "/v1/jobs", CREATED)
    return stub


def sent(stub: Stub) -> dict[str, Any]:
    return stub.requests("POST", "/v1/jobs")[-1].body["spec"]


def test_flags(taking: Stub, ares: Ares, monkeypatch: pytest.MonkeyPatch, elsewhere: Path) -> None:
    monkeypatch.setenv("HERE", "from here")
    done = ares(
        "submit", "--gpus", "2", "--name", "train", "--cpus", "1.5", "--memory", "4G", "--gpu-model", "A100",
        "--priority", "high", "--time", "2h", "--grace", "10s", "--retries", "5", "--restart", "never",
        "--effects", "unsafe", "--array", "0-9", "--env", "K=V=W", "-e", "HERE", "--label", "k=v",
        "--selector", "zone=a", "--chdir", ".", "--lease", "60s", "--request-id", "X",
        "--", "python", "train.py", "--epochs", "3", "-f",
    )  # fmt: skip
    assert (done.code, done.out, done.err) == (0, f"submitted {JOB} (train)\n", "")
    assert taking.asked[0].body["requestId"] == "X"
    assert sent(taking) == {
        "command": ["python", "train.py", "--epochs", "3", "-f"], "name": "train", "priority": "HIGH",
        "resources": {"cpuMilli": 1500, "memoryMib": 4096, "gpus": 2, "gpuModel": "A100"}, "timeLimitS": 7200.0,
        "graceS": 10.0, "retry": {"limit": 5}, "restart": "never", "effects": "unsafe", "array": "0-9",
        "env": {"K": "V=W", "HERE": "from here"}, "labels": {"k": "v"}, "selector": {"zone": "a"},
        "workdir": str(elsewhere), "leaseS": 60.0,
    }  # fmt: skip


def test_what_it_reads_and_what_its_submitter_says_it_costs(taking: Stub, ares: Ares, elsewhere: Path) -> None:
    done = ares(
        "submit", "--priority", "0", "--input-ref", "s3://b/set", "--input-ref", "other", "--cost-estimate", "2.5",
        "--", "true",
    )  # fmt: skip
    assert done.code == 0, done.err
    said = {"priority": "CRITICAL", "inputRefs": ["s3://b/set", "other"], "claimedCost": 2.5}
    assert sent(taking) == {"command": ["true"], "resources": {"memoryMib": 0}, **said}
    (elsewhere / "job.yaml").write_text(
        "command: ['true']\npriority: 0\ninputRefs: [s3://b/set, other]\ncostEstimate: 2.5"
    )
    assert ares("submit", "-f", "job.yaml").code == 0
    assert sent(taking) == {"command": ["true"], "resources": {"memoryMib": 0}, **said}
    assert "'7' is not one of" in ares("submit", "--priority", "7", "--", "true").err


def test_flags_about_devices_places_and_giving_way(taking: Stub, ares: Ares, now: float) -> None:
    done = ares(
        "submit", "--gpus", "4", "--gpu-model", "H100", "--gpu-share", "0.5", "--gpu-memory", "40G", "--cpus", "8",
        "--device", "tpu-v4=2", "--device", "fpga", "--or", "gpus=4,gpu-model=A100", "--or", "cpus=64",
        "--ranks", "4", "--min-ranks", "2", "--per-node", "1", "--assembly", "60s", "--resize-signal", "usr2",
        "--topology", "rack:required", "--numa", "required", "--qos", "burstable", "--licence", "matlab=1",
        "--team", "vision", "--tolerate", "spot", "--tolerate", "tier=old", "--require", "zone in a,b",
        "--prefer", "!slow", "--near", "app=db@rack", "--away", "app=web,tier=x@zone:preferred", "--region", "eu",
        "--input", "imagenet=120G", "--deadline", "2h", "--runtime", "90m", "--no-preempt",
        "--checkpoint-signal", "SIGUSR1", "--checkpoint-wait", "60s", "--", "x",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    first = {
        "gpus": 4, "gpuModel": "H100", "gpuMilli": 500, "gpuMemoryMib": 40960, "cpuMilli": 8000,
        "devices": {"tpu-v4": 2, "fpga": 1}, "memoryMib": 0,
    }  # fmt: skip
    assert sent(taking) == {
        "command": ["x"], "resources": first,
        "alternatives": [
            {"cpuMilli": 8000, "devices": first["devices"], "gpus": 4, "gpuModel": "A100", "memoryMib": 0},
            {**first, "cpuMilli": 64000},
        ],
        "gang": {"ranks": 4, "minRanks": 2, "perNode": 1, "assemblyS": 60.0, "resizeSignal": "SIGUSR2"},
        "topology": {"level": "rack", "required": True}, "numa": "required", "qos": "burstable",
        "licences": {"matlab": 1}, "team": "vision",
        "tolerations": [{"key": "spot"}, {"key": "tier", "value": "old"}],
        "affinity": [
            {"key": "zone", "values": ["a", "b"]}, {"key": "slow", "op": "absent", "required": False},
        ],
        "jobAffinity": [
            {"labels": {"app": "db"}, "level": "rack"},
            {"labels": {"app": "web", "tier": "x"}, "level": "zone", "away": True, "required": False},
        ],
        "residency": ["eu"], "inputs": [{"name": "imagenet", "sizeMib": 122_880}], "deadlineAt": now + 7200.0,
        "expectedRuntimeS": 5400.0,
        "preemption": {"allowed": False, "checkpointSignal": "SIGUSR1", "waitS": 60.0},
    }  # fmt: skip


def test_the_command_may_follow_without_dashes(taking: Stub, ares: Ares) -> None:
    assert ares("submit", "--gpus", "1", "echo", "--gpus", "7").code == 0
    assert sent(taking) == {"command": ["echo", "--gpus", "7"], "resources": {"gpus": 1, "memoryMib": 0}}


FILES = {
    "job.yaml": "command: [python, train.py]\ngpus: 2\nmemory: 4G\ntime: 1h\nenv: {A: '1', B: '2'}\n",
    "job.toml": 'command = ["python", "train.py"]\ngpus = 2\nmemory = "4G"\ntime = "1h"\nenv = {A = "1", B = "2"}\n',
    "job.json": '{"command":["python","train.py"],"gpus":2,"memory":"4G","time":"1h","env":{"A":"1","B":"2"}}',
    "job": (
        "command: [python, train.py]\nresources: {gpus: 2, memoryMib: 4096}\ntimeLimitS: 3600\nenv: {A: '1', B: '2'}\n"
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_all_kinds_mean_the_same_and_flags_override(
    taking: Stub, ares: Ares, elsewhere: Path, name: str
) -> None:
    (elsewhere / name).write_text(FILES[name])
    assert ares("submit", "-f", name, "--time", "2h", "--env", "B=3", "--cpus", "500m").code == 0
    assert sent(taking) == {
        "command": ["python", "train.py"], "resources": {"gpus": 2, "memoryMib": 4096, "cpuMilli": 500},
        "timeLimitS": 7200.0, "env": {"A": "1", "B": "3"},
    }  # fmt: skip


def test_a_file_from_stdin(taking: Stub, ares: Ares, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (elsewhere / "in").write_text("script: |\n  set -e\n  make\n")
    with (elsewhere / "in").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert ares("submit", "-f", "-").code == 0
    assert sent(taking) == {"command": ["/bin/sh", "-c", "set -e\nmake\n"], "resources": {"memoryMib": 0}}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("j.yaml", "command: [x]\ngpuss: 1\n", "unknown key gpuss\nfix: did you mean gpus?"),
        ("j.yaml", "command: [x]\ngpus: 1\ngpus: 2\n", "the key 'gpus' stands twice, line 3"),
        ("j.yaml", "command: [x\n", "j.yaml cannot be read: line 2, column 1: while parsing a flow sequence, expected"),
        ("j.yaml", "- a\n- b\n", "j.yaml does not hold a job"),
        ("j.yaml", "", "j.yaml does not hold a job"),
        (
            "j.sh",
            "#!/bin/bash\n#SBATCH --mem=1G\n",
            "j.sh is a script and no job file\nfix: ares submit -- sh j.sh; its #SB",
        ),
        ("j.yaml", "1: x\n", "j.yaml does not hold a job"),
        ("j.yaml", "command: !!python/object/apply:os.system [id]\n", "could not determine a constructor"),
        ("j.yaml", "command: [x]\nenv: {A: 1}\n", "values are text: put the value in quotes"),
        ("j.yaml", "command: [x]\nenv: {1A: b}\n", "env: expected str of another form\nfix: names of variables are"),
        ("j.yaml", "command: [x]\nname: a\\b\n", "name: expected str of another form\nfix: letters, digits, spaces"),
        ("j.yaml", "command: [x]\nsignal: USR1@60s\n", "needs a time limit"),
        ("j.yaml", "command: python train.py\n", "command is text, but has to be a list"),
        ("j.toml", "command = [", "j.toml cannot be read"),
        ("j.json", '{"command": ["x"],}', "j.json cannot be read"),
        ("j.json", "\udc80", "j.json cannot be read"),
    ],
)
def test_bad_files_are_explained(stub: Stub, ares: Ares, elsewhere: Path, name: str, text: str, says: str) -> None:
    (elsewhere / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    done = ares("submit", "-f", name)
    assert done.code == 1
    assert done.err.startswith("error: This is not a valid job: ")
    assert says in done.err
    assert stub.asked == []


def test_flags_are_checked_before_anything_is_sent(stub: Stub, ares: Ares) -> None:
    done = ares("submit", "--memory", "4096", "--", "true")
    assert done.err.splitlines() == [
        "error: This is not a valid job: memory 4096 has no unit",
        "fix: write 4096M for mebibytes or 4096G for gibibytes",
    ]
    assert ares("submit", "--gpus", "-1", "--", "true").code == 1
    assert ares("submit").err.splitlines()[1] == "fix: write it after --, or as command: [...] in the file"
    assert stub.asked == []


@pytest.mark.parametrize(
    ("text", "warn"),
    [
        ("USR1@60s", {"signal": "SIGUSR1", "beforeS": 60.0}),
        ("sigterm@1m30s", {"signal": "SIGTERM", "beforeS": 90.0}),
        ("INT", {"signal": "SIGINT"}),
    ],
)
def test_a_signal_ahead_of_the_time_limit(taking: Stub, ares: Ares, text: str, warn: Any) -> None:
    assert ares("submit", "--time", "1h", "--signal", text, "--", "true").code == 0
    assert {"signal": "SIGUSR1", "beforeS": 60.0, **sent(taking)["warn"]} == {"beforeS": 60.0, **warn}


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("KILL@60s", "one of SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGHUP"),
        ("USR1@60", "write 60s for seconds"),
        ("@60s", "write it like USR1@60s"),
    ],
)
def test_a_wrong_signal_is_explained(stub: Stub, ares: Ares, text: str, fix: str) -> None:
    done = ares("submit", "--time", "1h", "--signal", text, "--", "true")
    assert done.code == 1
    assert f"fix: {fix}" in done.err


def test_the_files_of_this_directory_go_with_the_job(
    taking: Stub, ares: Ares, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "train.py").write_text("print(1)")
    monkeypatch.setenv("ARES_SHIP", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(elsewhere / ".venv"))
    taking.on("POST", "/v1/projects", {"sha256": "a" * 64, "files": 1, "bytes": 8, "kept": True, "missing": []})
    done = ares("submit", "--", "python", "train.py")
    assert done.err == f"shipped {elsewhere}: 1 file, 8 B, nothing new\n"
    assert sent(taking)["project"] == "a" * 64
    for flags in (("-C", "."), ("--workdir", "none")):
        assert ares("submit", *flags, "--", "python", "train.py").err == ""
        assert "project" not in sent(taking)


def test_a_repeated_request_says_so(stub: Stub, ares: Ares) -> None:
    stub.on("POST", "/v1/jobs", {"id": JOB, "replayed": True, "tasks": 10})
    assert ares("submit", "--request-id", "X", "--", "true").out == (
        f"already submitted as {JOB} (job) with 10 tasks: this request id was used before\n"
    )


def test_a_conflict_is_passed_on(stub: Stub, ares: Ares) -> None:
    stub.on("POST", "/v1/jobs", problem(409, "request-conflict", "used with another payload", "use a new id"))
    done = ares("submit", "--request-id", "X", "--", "true")
    assert (done.code, done.err.splitlines()[1]) == (1, "fix: use a new id")


def test_output_for_programs(taking: Stub, ares: Ares) -> None:
    assert ares("submit", "-o", "name", "--", "true").out == f"{JOB}\n"
    assert json.loads(ares("submit", "-o", "json", "--", "true").out)["id"] == JOB


# ---- waiting


def test_wait_exits_as_the_job_did(taking: Stub, ares: Ares) -> None:
    looked = threading.Event()

    def pieces() -> Any:
        assert looked.wait(20)
        yield event(2, "FAILED", "failed")

    taking.on("GET", "/v1/events", Say(pieces=pieces()))
    failed = detail("FAILED", exit={"code": 7, "failure": "exit"}, reason="exit 7")
    taking.on("GET", f"/v1/jobs/{JOB}", Say(detail("PENDING"), before=looked.set), failed)
    done = ares("submit", "--wait", "--", "sh", "-c", "exit 7")
    assert (done.code, done.out) == (7, "")
    assert done.err.splitlines() == [f"submitted {JOB} (job)", f"{JOB} (train) FAILED: exit 7"]


@pytest.mark.parametrize("remedy", ["yours", "operator", "wait"])
def test_a_job_that_will_not_run_by_itself_says_so(taking: Stub, ares: Ares, remedy: str) -> None:
    waiting = {"code": "X", "remedy": remedy, "message": "needs 99 GPUs; the largest has 4"}
    taking.on("GET", f"/v1/jobs/{JOB}", detail(), detail(waiting=waiting), detail("CANCELLED"))
    err = ares("submit", "--wait", "--", "true").err
    assert ("warning: " in err) == (remedy != "wait")
    assert ("needs 99 GPUs; the largest has 4" in err) == (remedy != "wait")


def test_a_job_submitted_by_a_script_is_not_looked_at(taking: Stub, ares: Ares) -> None:
    assert ares("submit", "--", "true").code == 0
    assert [asked.method for asked in taking.asked] == ["POST"]


def test_follow_separates_attempts_on_stderr(taking: Stub, ares: Ares) -> None:
    first, second = ({"x-ares-attempt": n, "x-ares-log-offset": "0"} for n in ("1", "2"))
    logs = [Say(headers=first, pieces=[b"one"]), Say(headers=second, pieces=[b"two\n"])]
    taking.on("GET", f"/v1/jobs/{JOB}/logs", *logs)
    taking.on("GET", f"/v1/jobs/{JOB}", detail("SUCCEEDED", attempt=2))
    bound = {"job": JOB, "tenant": "t", "kind": "bound", "phase": "STAGING", "at": 1.0}
    events = [{**bound, "seq": 2 * n, "attempt": n, "data": {"node": f"n-{n}"}} for n in (1, 2)]
    taking.on("GET", f"/v1/jobs/{JOB}/events", {"events": events})
    done = ares("logs", "-f", JOB)
    assert (done.code, done.out, done.err) == (0, "onetwo\n", "-- attempt 2 on n-2 --\n")


def test_follow_prints_the_jobs_bytes_alone(taking: Stub, ares: Ares) -> None:
    headers = {"x-ares-attempt": "1", "x-ares-log-offset": "0"}
    taking.on("GET", f"/v1/jobs/{JOB}/logs", Say(headers=headers, pieces=[b"one\n", b"\x1b[2Jtwo"]))
    taking.on("GET", f"/v1/jobs/{JOB}", detail("SUCCEEDED", attempt=1))
    done = ares("submit", "--follow", "--", "x")
    assert (done.code, done.out) == (0, "one\n\x1b[2Jtwo")


CODES = [
    (0, "SUCCEEDED", {"code": 0}),
    (3, "FAILED", {"code": 3, "failure": "exit"}),
    (137, "FAILED", {"signal": "SIGKILL", "failure": "signal"}),
    (143, "FAILED", {"signal": "TERM", "failure": "signal"}),
    (128, "FAILED", {"signal": "SIGNONSENSE", "failure": "signal"}),
    (137, "FAILED", {"signal": "SIGKILL", "failure": "oom"}),
    (124, "FAILED", {"signal": "SIGTERM", "failure": "time-limit"}),
    (125, "FAILED", {"failure": "staging"}),
    (120, "FAILED", {"failure": "node-lost"}),
    (1, "FAILED", {"code": 0, "failure": "exit"}),
    (1, "FAILED", None),
    (121, "CANCELLED", {"signal": "SIGTERM"}),
    (121, "CANCELLED", None),
    (122, "UNKNOWN", None),
]


@pytest.mark.parametrize(("code", "phase", "ending"), CODES)
def test_exit_codes(code: int, phase: str, ending: dict[str, Any] | None) -> None:
    assert exit_code(msgspec.convert(detail(phase, exit=ending), JobDetail)) == code


def test_wait_for_several(stub: Stub, ares: Ares) -> None:
    other = "f" * 16
    stub.on("GET", f"/v1/jobs/{JOB}", detail("SUCCEEDED"))
    stub.on("GET", f"/v1/jobs/{other}", detail("CANCELLED", id=other, name="other", reason="enough"))
    done = ares("wait", JOB, other)
    assert done.code == 121
    assert done.err.splitlines() == [f"{JOB} (train) SUCCEEDED", f"{other} (other) CANCELLED: enough"]
    done = ares("wait", JOB, other, "-o", "json")
    assert (done.code, [one["state"]["phase"] for one in json.loads(done.out)["jobs"]]) == (
        121,
        ["SUCCEEDED", "CANCELLED"],
    )


def test_wait_gives_up(stub: Stub, ares: Ares) -> None:
    stub.on("GET", f"/v1/jobs/{JOB}", detail("RUNNING"))
    done = ares("wait", "--timeout", "0", JOB)
    assert done.code == 123
    assert done.err.startswith(f"error: The job did not end in the time given: {JOB} is RUNNING")


# ---- ids


def test_beginnings_of_ids(stub: Stub, ares: Ares) -> None:
    stub.on("DELETE", f"/v1/jobs/{JOB}", state("CANCELLED"))
    stub.on("GET", "/v1/jobs/resolve", {"ids": [JOB]})
    assert ares("cancel", "0123AB", "--reason", "enough").out == f"{JOB} (train) CANCELLED\n"
    assert stub.asked[0].query == {"prefix": "0123ab"}
    stub.on("GET", "/v1/jobs/resolve", {"ids": []})
    stub.on("GET", "/v1/jobs", {"jobs": []})
    assert ares("cancel", "zz").err.splitlines() == [
        "error: There is no such thing: no job's id begins with 'zz', and none is called so",
        "fix: `ares jobs` lists the jobs",
    ]
    stub.on("GET", "/v1/jobs/resolve", {"ids": ["aa1", "aa2"]})
    done = ares("cancel", "aa")
    assert done.code == 1
    assert done.err.splitlines()[0] == "error: The id or name fits several jobs: 'aa' fits aa1, aa2"
    assert len(stub.requests("DELETE", f"/v1/jobs/{JOB}")) == 1


def test_a_job_by_its_name(stub: Stub, ares: Ares) -> None:
    """Where the name says which one is meant: the only one, or the only one that has not ended."""
    stub.on("DELETE", f"/v1/jobs/{JOB}", state("CANCELLED"))
    stub.on("GET", "/v1/jobs/resolve", {"ids": []})
    ended = [{**state("SUCCEEDED"), "id": f"{number}{JOB[1:]}"} for number in (4, 5)]
    stub.on("GET", "/v1/jobs", {"jobs": [ended[0], state("RUNNING"), ended[1]]})
    assert ares("cancel", "my-train").out == f"{JOB} (train) CANCELLED\n"
    assert stub.requests("GET", "/v1/jobs")[0].query["name"] == "my-train"
    stub.on("GET", "/v1/jobs", {"jobs": ended})
    assert "'my-train' fits" in ares("cancel", "my-train").err
    # A short name may be the beginning of another job's id: neither is taken.
    stub.on("GET", "/v1/jobs/resolve", {"ids": [ended[0]["id"]]})
    stub.on("GET", "/v1/jobs", {"jobs": [state("RUNNING")]})
    assert f"'4' fits {ended[0]['id']}, {JOB}" in ares("cancel", "4").err
    assert len(stub.requests("DELETE", f"/v1/jobs/{JOB}")) == 1


@pytest.mark.parametrize(
    ("name", "mode", "text", "way"),
    [
        ("job.sh", 0o644, "#!/bin/bash -e\n#SBATCH --mem=1G\n", "-- bash job.sh; its #SBATCH lines are not read"),
        ("job.sh", 0o755, "#!/usr/bin/env bash\n", "-- ./job.sh"),
        ("train.py", 0o644, "print()\n", "-- python train.py"),
        ("empty-one", 0o755, "", "-- sh empty-one"),
    ],
)
def test_a_script_that_is_no_command(
    taking: Stub,
    ares: Ares,
    elsewhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    mode: int,
    text: str,
    way: str,
) -> None:
    (elsewhere / name).write_text(text)
    (elsewhere / name).chmod(mode)
    monkeypatch.setenv("ARES_SHIP", "")
    done = ares("submit", name)
    assert done.code == 1
    assert f"{name} is a file of the project and no command" in done.err
    assert f"fix: ares submit {way}" in done.err
    assert not taking.requests("POST", "/v1/jobs")


def test_nothing_is_cancelled_unless_all_names_are_clear(stub: Stub, ares: Ares) -> None:
    stub.on("DELETE", f"/v1/jobs/{JOB}", state("CANCELLED"))
    stub.on("GET", "/v1/jobs/resolve", {"ids": ["aa1", "aa2"]})
    assert ares("cancel", JOB, "aa").code == 1
    assert stub.requests("DELETE", f"/v1/jobs/{JOB}") == []


def test_one_job_that_has_ended_does_not_save_the_others(stub: Stub, ares: Ares) -> None:
    other = "f" * 16
    stub.on("DELETE", f"/v1/jobs/{JOB}", problem(409, "job-finished", "it SUCCEEDED"))
    stub.on("DELETE", f"/v1/jobs/{other}", state("CANCELLED", id=other))
    done = ares("cancel", JOB, other)
    assert (done.code, done.out) == (1, f"{other} (train) CANCELLED\n")
    assert done.err.startswith(f"error: {JOB}: ")
    done = ares("cancel", JOB, other, "-o", "json")
    assert (done.code, json.loads(done.out)) == (1, {"jobs": [state("CANCELLED", id=other)]})
    assert ares("cancel", other, "-o", "name").out == f"{other}\n"


def page(**more: object) -> dict[str, object]:
    found = {"action": "cancel", "matched": 0, "changed": 0, "refused": 0, "phases": {}, "refusals": [], "cursor": ""}
    return {**found, **more}


def test_cancelling_by_choice(stub: Stub, ares: Ares) -> None:
    counted = page(matched=7, phases={"PENDING": 7})
    first, last = page(matched=5, changed=5, cursor="more"), page(matched=2, changed=2)
    stub.on("POST", "/v1/jobs/cancel", counted, counted, first, last)
    refused = ares("cancel", "--phase", "pending", "--name", "n", "--label", "exp=7")
    assert refused.code == 2
    assert "cancel 7 jobs (7 PENDING)? nobody is here to answer; add --yes" in refused.err
    done = ares("cancel", "--phase", "pending", "--name", "n", "--label", "exp=7", "--yes")
    assert (done.code, done.out) == (0, "7 jobs cancelled\n")
    asked = [request.body for request in stub.requests("POST", "/v1/jobs/cancel")]
    assert [(one["dryRun"], one["cursor"]) for one in asked] == [(True, ""), (True, ""), (False, ""), (False, "more")]
    assert asked[0]["filter"] == {"phases": ["PENDING"], "name": "n", "labels": {"exp": "7"}}


def test_what_cannot_be_changed_is_named(stub: Stub, ares: Ares) -> None:
    counted, no = (
        page(matched=2, phases={"RUNNING": 2}),
        {"job": JOB, "code": "not-allowed", "message": "no", "fix": "x"},
    )
    stub.on("POST", "/v1/jobs/update", counted, page(matched=2, changed=1, refused=1, refusals=[no]), page())
    done = ares("update", "--all", "--memory", "2G", "--time", "none", "--yes")
    assert (done.code, done.out) == (1, "1 job changed, 1 left as they were\n")
    assert done.err.splitlines() == [f"error: {JOB}: no", "fix: x"]
    (asked, _) = (request.body for request in stub.requests("POST", "/v1/jobs/update"))
    assert asked["update"] == {"resources": {"memoryMib": 2048}, "timeLimitS": None}
    none = ares("update", "--all", "--memory", "2G", "-y", "-o", "json")
    assert (none.code, json.loads(none.out)["matched"]) == (0, 0)


def test_update_and_requeue_of_named_jobs(stub: Stub, ares: Ares) -> None:
    stub.on("PATCH", f"/v1/jobs/{JOB}", state("PENDING"))
    stub.on("POST", f"/v1/jobs/{JOB}/requeue", state("PREEMPTED"), problem(409, "not-allowed", "it is PENDING"))
    assert ares("update", JOB, "--priority", "0").out == f"{JOB} (train) PENDING\n"
    assert stub.requests("PATCH", f"/v1/jobs/{JOB}")[0].body == {"priority": "CRITICAL"}
    assert ares("requeue", JOB, "--reason", "slow").out == f"{JOB} (train) PREEMPTED\n"
    assert ares("requeue", JOB).code == 1
    nothing = ares("update", JOB)
    assert "nothing is to be changed" in nothing.err
    wrong = ares("update", JOB, "--memory", "lots")
    assert "memory 'lots' is not an amount" in wrong.err


@pytest.mark.parametrize("arguments", [[], ["--all", JOB], ["--yes"]])
def test_cancel_wants_names_or_a_choice(stub: Stub, ares: Ares, arguments: list[str]) -> None:
    done = ares("cancel", *arguments)
    assert done.code == 2
    assert "name jobs, or choose them by --all" in done.err
    assert stub.asked == []


@pytest.mark.parametrize(("command", "what"), [("events", "a ledger")])
def test_what_only_tasks_have(stub: Stub, ares: Ares, command: str, what: str) -> None:
    missing = problem(404, "not-found")
    stub.on("GET", f"/v1/jobs/{JOB}/{command}", missing)
    stub.on("GET", f"/v1/jobs/{JOB}", detail(arrayCounts={"PENDING": 3}), missing)
    done = ares(command, JOB)
    assert (done.code, done.err.splitlines()) == (1, [
        f"error: There is no such thing: {JOB} is an array, and only its tasks have {what}",
        f"fix: name a task, such as {JOB}_0; `ares jobs --array {JOB}` lists them",
    ])  # fmt: skip
    assert ares(command, JOB).err.startswith(f"error: There is no such thing: /v1/jobs/{JOB}")


def test_full_ids_are_not_looked_up(stub: Stub, ares: Ares) -> None:
    task = f"{JOB}_12"
    stub.on("POST", f"/v1/jobs/{task}/retry", state("PENDING", id="f" * 16))
    assert ares("retry", task).out == f"submitted {'f' * 16} (train), again after {task}\n"
    assert [asked.path for asked in stub.asked] == [f"/v1/jobs/{task}/retry"]
    assert json.loads(ares("retry", task, "-o", "json").out) == state("PENDING", id="f" * 16)


def test_events_of_a_job_and_of_all(stub: Stub, ares: Ares) -> None:
    entry = {"job": JOB, "tenant": "t", "seq": 1, "kind": "submitted", "phase": "PENDING", "at": 1000.0, "by": "tok"}
    stub.on("GET", f"/v1/jobs/{JOB}/events", {"events": [entry]})
    assert ares("events", JOB).out.splitlines()[1].split()[2:] == ["submitted", "PENDING", "-", "-", "tok", "-"]
    assert json.loads(ares("events", JOB, "-o", "json").out) == {"events": [entry]}
    rank = {**entry, "kind": "rank-started", "phase": "STAGING", "data": {"rank": 3, "node": "n1"}}
    stub.on("GET", f"/v1/jobs/{JOB}/events", {"events": [rank, {**rank, "kind": "rank-exited", "reason": "lost"}]})
    assert [line.split("  ")[-1] for line in ares("events", JOB).out.splitlines()[1:]] == ["rank 3", "rank 3: lost"]
    refused = problem(400, "bad-cursor", "gone")
    stub.on("GET", "/v1/events", Say(pieces=[event(1, "RUNNING", cursor="7-1")]), refused)
    done = ares("events", "-f", "--after", "0", "-o", "json")
    assert json.loads(done.out)["cursor"] == "7-1"
    assert [asked.headers["last-event-id"] for asked in stub.requests("GET", "/v1/events")] == ["0", "7-1"]


# ---- the live line


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"phase": "PENDING", "queuePosition": 3, "reason": "needs 8 GPUs"},
            "train PENDING for 1h (3 ahead) - needs 8 GPUs",
        ),
        (
            {"phase": "PENDING", "queuePosition": 0, "waiting": {"remedy": "wait", "message": "needs 8 GPUs, 2 free"}},
            "train PENDING for 1h - needs 8 GPUs, 2 free",
        ),
        ({"phase": "RETRYING", "retryAt": 4612.0}, "train RETRYING for 1h - next try in 12s"),
        ({"phase": "RUNNING", "arrayCounts": {"RUNNING": 1, "PENDING": 2, "FAILED": 0}}, "train 1 RUNNING, 2 PENDING"),
        (
            {
                "phase": "RUNNING", "startedAt": 4480.0,
                "placements": [{"node": "n", "incarnation": 1, "cpuMilli": 1, "memoryMib": 1}],
                "progress": {"job": JOB, "fence": {}, "fraction": 0.4, "message": "epoch\x1b 4"},
            },
            "train RUNNING on n for 2m - 40% epoch\\x1b 4",
        ),
    ],
)  # fmt: skip
def test_status_line(fields: dict[str, Any], words: str) -> None:
    assert status(read(detail(**fields), JobDetail), 4600.0) == words
