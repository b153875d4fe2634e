"""Tables and objects, word for word."""

import itertools
import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from ares.edge.cli.render.log_lines import TerminalFilter
from ares.edge.cli.render.table import layout
from ares.edge.cli.render.text import cpus, duration, memory, printable
from ares.model.isolation import BOX
from tests.unit.edge.client.stub import JOB, Stub, detail, state

Ares = Callable[..., Any]
PLACED = {"node": "node-1", "incarnation": 1, "cpuMilli": 1500, "memoryMib": 4096, "gpus": [0, 3], "rank": 0}
JOBS = [
    state("RUNNING", attempt=1, startedAt=4475.0, placements=[PLACED], fence={"epoch": 1, "counter": 2}),
    state("PENDING", id="b" * 16, name="wait", submittedAt=4595.0, submittedBy="tok"),
    state("RETRYING", id="c" * 16, name="flaky", attempt=2, startedAt=4000.0, endedAt=4003.0, retryAt=4612.0,
          exit={"code": 3, "failure": "exit"}),
    state("FAILED", id="d" * 16, name="big", attempt=4, submittedAt=1000.0, startedAt=1000.0, endedAt=1000.0 + 93_784,
          exit={"signal": "SIGKILL", "failure": "oom", "message": "used 4097 of 4096 MiB"}),
    state("CANCELLED", id="e" * 16 + "_7", name="a\tb\x1b[31m", array="e" * 16, index=7, lingering=True,
          placements=[PLACED, {**PLACED, "node": "node-2", "rank": 1}]),
]  # fmt: skip
WAITING = {"code": "INFEASIBLE_GPU", "remedy": "yours", "message": "needs 8 GPUs", "numbers": {"asked": 8}}
PAGE = {"cursor": "", "waiting": {"b" * 16: WAITING}}
TABLE = """\
ID                  NAME          STATE      ATTEMPT  AGE  RUN   ETA  NODE      REASON
0123456789abcdef    train         RUNNING    1        1h   2m5s  -    node-1    -
bbbbbbbbbbbbbbbb    wait          PENDING    -        5s   -     -    -         cannot run: needs 8 GPUs
cccccccccccccccc    flaky         RETRYING   2        1h   3s    -    -         exit 3; next try in 12s
dddddddddddddddd    big           FAILED     4        1h   1d2h  -    -         SIGKILL (oom): used 4097 of 4096 MiB
eeeeeeeeeeeeeeee_7  a\\tb\\x1b[31m  CANCELLED  -        1h   -     -    node-1+1  processes still ending
"""
WIDE = """\
ID                NAME   STATE    ATTEMPT  AGE  RUN   ETA  NODE    CPUS  MEMORY  GPUS  FENCE  BY   DEADLINE  REASON
0123456789abcdef  train  RUNNING  1        1h   2m5s  -    node-1  1.5   4Gi     2     1.2    -    -         -
bbbbbbbbbbbbbbbb  wait   PENDING  -        5s   -     -    -       -     -       -     1.0    tok  -         cannot run: needs 8 GPUs
"""  # noqa: E501 - as it is printed


@pytest.mark.usefixtures("now")
def test_jobs_table(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/jobs", {"jobs": JOBS, **PAGE})
    done = ares("jobs")
    assert (done.code, done.out, done.err) == (0, TABLE, "")
    assert stub.asked[0].query == {"arrays": "whole", "sort": "-submitted", "limit": "50"}


@pytest.mark.usefixtures("now")
def test_an_array_is_one_line_unless_its_tasks_are_asked_for(stub: Stub, ares: Ares) -> None:
    waiting = {"code": "INSUFFICIENT_GPU", "remedy": "wait", "message": "needs 1 GPU, 0 are free"}
    counts = {"SUCCEEDED": 7, "PENDING": 990, "RUNNING": 3}
    stub.on("GET", "/v1/jobs", {
        "jobs": [state("RUNNING", startedAt=4570.0)], "cursor": "",
        "waiting": {JOB: waiting}, "arrayCounts": {JOB: counts},
    })  # fmt: skip
    assert (
        ares("jobs")
        .out.splitlines()[1]
        .endswith("1000 tasks: 3 RUNNING, 990 PENDING, 7 SUCCEEDED; needs 1 GPU, 0 are free")
    )
    assert ares("jobs", "-o", "name").out == f"{JOB}\n"
    ares("jobs", "--tasks")
    ares("jobs", "--array", JOB)
    assert [asked.query["arrays"] for asked in stub.asked] == ["whole", "whole", "tasks", "tasks"]


@pytest.mark.usefixtures("now")
def test_jobs_wide(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/jobs", {"jobs": JOBS[:2], **PAGE})
    assert ares("jobs", "-o", "wide").out == WIDE


def test_jobs_for_programs(stub: Stub, ares: Ares) -> None:
    page = {"jobs": [{**JOBS[0], "fieldOfANewerServer": 1}], "cursor": ""}
    stub.on("GET", "/v1/jobs", page)
    assert json.loads(ares("jobs", "-o", "json").out) == page
    assert yaml.safe_load(ares("jobs", "-o", "yaml").out) == page
    assert ares("jobs", "-o", "name").out == f"{JOB}\n"


def test_jobs_filters_and_pages(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/jobs", {"jobs": [state(id="a")] * 1000, "cursor": "x"}, {"jobs": [state()], "cursor": "y"})
    done = ares("jobs", "--active", "--name", "n", "--label", "k=v", "--node", "m", "--oldest", "--limit", "1001")
    first, second = (asked.query for asked in stub.requests("GET", "/v1/jobs"))
    assert (first["limit"], second["limit"], second["cursor"]) == ("1000", "1", "x")
    assert (first["name"], first["label"], first["node"], first["sort"]) == ("n", "k=v", "m", "submitted")
    assert len(done.out.splitlines()) == 1002
    assert done.err == "... more than these 1001 (use --limit, or a filter)\n"


def test_no_jobs(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/jobs", {"jobs": [], "cursor": ""})
    done = ares("jobs")
    assert (done.code, done.out, done.err) == (0, "", "no jobs\n")
    assert json.loads(ares("jobs", "-o", "json").out) == {"jobs": [], "cursor": ""}


SHOWN = """\
train  0123456789abcdef  RETRYING
  Command     python -c 'print(1)'
  Asks for    1.5 CPUs, 4Gi, 2 GPUs (A100)
  Policy      priority HIGH, restart on-failure, retries 3, effects staged
  Limits      time limit 2h, grace 30s, lease 9s
  Environment SECRET
  Labels      team=x
  Submitted   1h ago by tok, tenant default
  Queue       next
  Attempt     2, fence 1.5
  Node        node-1 GPU 0,3
  Run time    3s
  Progress    40% epoch\\x074
  Reason      exit 3; next try in 12s
  Exit        exit 3, used 100 MiB at most, 1.5 s of CPU
  Result      {"loss": 0.1}

AT      KIND       STATE    ATTEMPT  FENCE  BY   REASON
+0s     submitted  PENDING  -        -      tok  -
+1m30s  bound      STAGING  1        1.1    -    -
"""


@pytest.mark.usefixtures("now")
def test_show(stub: Stub, ares: Ares) -> None:
    spec = {
        "command": ["python", "-c", "print(1)"], "name": "train", "env": {"SECRET": "hunter2"}, "priority": "HIGH",
        "resources": {"cpuMilli": 1500, "memoryMib": 4096, "gpus": 2, "gpuModel": "A100"},
        "timeLimitS": 7200.0, "labels": {"team": "x"},
    }  # fmt: skip
    fence = {"epoch": 1, "counter": 5}
    exit_info = {"code": 3, "failure": "exit", "maxRssMib": 100, "cpuS": 1.5}
    stub.on("GET", f"/v1/jobs/{JOB}", detail(
        "RETRYING", spec=spec, attempt=2, fence=fence, startedAt=4000.0, endedAt=4003.0, retryAt=4612.0,
        exit=exit_info, submittedBy="tok", queuePosition=0, placements=[PLACED],
        progress={"job": JOB, "fence": fence, "fraction": 0.4, "message": "epoch\x074"},
        result={"job": JOB, "fence": fence, "attempt": 2, "exit": exit_info, "committedAt": 1.0,
                "value": {"loss": 0.1}},
    ))  # fmt: skip
    common = {"job": JOB, "tenant": "default"}
    stub.on("GET", f"/v1/jobs/{JOB}/events", {"events": [
        {**common, "seq": 1, "kind": "submitted", "phase": "PENDING", "at": 1000.0, "by": "tok"},
        {**common, "seq": 2, "kind": "bound", "phase": "STAGING", "at": 1090.0, "attempt": 1, "fence": "1.1"},
    ]})  # fmt: skip
    done = ares("show", JOB)
    assert done.out == SHOWN
    assert "hunter2" not in done.out
    assert json.loads(ares("show", JOB, "-o", "json").out)["spec"] == spec


@pytest.mark.usefixtures("now")
def test_show_an_array(stub: Stub, ares: Ares) -> None:
    spec = {"command": ["x"], "array": "0-9"}
    stub.on("GET", f"/v1/jobs/{JOB}", detail("RUNNING", spec=spec, arrayCounts={"RUNNING": 2, "SUCCEEDED": 8}))
    assert "  Array       0-9: 2 RUNNING, 8 SUCCEEDED\n" in ares("show", JOB).out
    assert stub.requests("GET", "/v1/jobs") == []
    failed = [state("FAILED", id=f"{JOB}_{index}", exit={"code": 3, "failure": "exit"}) for index in range(5)]
    stub.on("GET", f"/v1/jobs/{JOB}", detail("RUNNING", spec=spec, arrayCounts={"RUNNING": 2, "FAILED": 8}))
    stub.on("GET", "/v1/jobs", {"jobs": failed, "cursor": "x"})
    lines = ares("show", JOB).out.splitlines()
    assert "  Array       0-9: 8 FAILED, 2 RUNNING" in lines
    assert [line.split()[0] for line in lines[-6:-1]] == [f"{JOB}_{index}" for index in range(5)]
    assert lines[-1] == f"... 8 in all: ares jobs --array {JOB} --phase FAILED"
    (asked,) = stub.requests("GET", "/v1/jobs")
    assert (asked.query["array"], asked.query["limit"], asked.query["sort"]) == (JOB, "5", "submitted")


@pytest.mark.usefixtures("now")
def test_show_says_what_a_job_waits_for_and_who_can_help(stub: Stub, ares: Ares) -> None:
    stub.on("GET", f"/v1/jobs/{JOB}", detail("PENDING", waiting=WAITING, queuePosition=3))
    stub.on("GET", f"/v1/jobs/{JOB}/events", {"events": []})
    shown = ares("show", JOB).out
    assert "  Queue       3 ahead of it\n" in shown
    assert "  Reason      cannot run: needs 8 GPUs\n" in shown
    assert "  Remedy      ask for less" in shown


NODES = """\
NAME  STATE          POOL     RUNNING  CPUS   MEMORY     GPUS  LEASE
n-1   READY          default  2        1.5/4  512Mi/8Gi  1/2   2s ago
n-2   LOST,CORDONED  spot     0        1/1    1Mi/1Mi    0/0   -
local: led by replica-a for 1h1m; the store was heard of 0s ago
"""


SANDBOX = [*BOX, "cgroup-v2"]


def test_where_jobs_are_kept_apart_less_well_is_said_under_the_nodes(stub: Stub, ares: Ares) -> None:
    parts = {"whole": SANDBOX, "bare-1": [], "bare-2": [], "limitless": [*BOX], "lost": []}
    nodes = [
        {"name": name, "info": {"name": name, "cpuMilli": 1, "memoryMib": 1, "sandbox": have}, "ready": name != "lost"}
        for name, have in parts.items()
    ]
    stub.on("GET", "/v1/nodes", {"nodes": nodes})
    stub.on("GET", "/v1/clusters", {"clusters": [{"id": "local", "storeAgeS": 0.0}]})
    bare, limitless, _ = ares("nodes").out.splitlines()[1 + len(parts) :]
    assert bare.startswith("bare-1, bare-2: jobs are in no sandbox and read whatever the agent may")
    assert limitless == "limitless: jobs are in sandboxes without limits on memory, CPU and processes: no cgroups"


def test_nodes_pools_and_leases(stub: Stub, ares: Ares) -> None:
    gpu = {"uuid": "u", "model": "A100", "memoryMib": 1}
    stub.on("GET", "/v1/nodes", {"nodes": [
        {"name": "n-1", "info": {"name": "n-1", "cpuMilli": 4000, "memoryMib": 8192,
                                 "sandbox": SANDBOX, "gpus": [{**gpu, "index": 0}, {**gpu, "index": 1}]},
         "ready": True, "leaseAgeS": 2.4, "running": 2, "cpuMilliFree": 1500, "memoryMibFree": 512, "gpusFree": 1},
        {"name": "n-2", "info": {"name": "n-2", "cpuMilli": 1000, "memoryMib": 1, "pool": "spot"}, "cordoned": True,
         "cpuMilliFree": 1000, "memoryMibFree": 1},
    ]})  # fmt: skip
    stub.on("GET", "/v1/nodepools", {"nodepools": [{
        "name": "default", "nodes": 2, "readyNodes": 1, "gpus": 2, "gpusFree": 1, "gpuModels": {"A100": 2},
        "powerWatts": 850.2, "terms": {"powerCapWatts": 3000.0},
    }]})  # fmt: skip
    stub.on("GET", "/v1/leases", {"leases": [{
        "job": JOB, "attempt": 1, "fence": "1.1", "node": "n-1", "phase": "RUNNING", "heldS": 61.0, "expiresInS": 8.6,
    }]})  # fmt: skip
    leads = {"id": "local", "leader": "replica-a", "leaderAgeS": 3700.0, "storeAgeS": 0.4}
    stub.on("GET", "/v1/clusters", {"clusters": [leads]}, {"clusters": [{"id": "local", "storeAgeS": 61.0}]})
    assert ares("nodes").out == NODES
    assert ares("nodes").out.splitlines()[-1] == "local: nobody leads; the store was heard of 1m1s ago"
    assert ares("nodes", "-o", "name").out == "n-1\nn-2\n"
    assert "A100" in ares("nodes", "-o", "wide").out
    assert ares("pools").out.splitlines()[1].split() == [
        "default",
        "1/2",
        "0/0",
        "0Mi/0Mi",
        "1/2",
        "0",
        "0",
        "850/3,000W",
        "2",
        "x",
        "A100",
    ]
    assert ares("lease", JOB).out.splitlines()[1].endswith("n-1   1m1s  in 9s unless renewed")
    assert json.loads(ares("lease", "-o", "json").out)["leases"][0]["job"] == JOB


@pytest.mark.parametrize(
    ("words", "method", "path", "said"),
    [
        (("cordon", "n"), "POST", "/cordon", "n cordoned; 3 running\n"),
        (("uncordon", "n"), "POST", "/uncordon", "n uncordoned\n"),
        (("undrain", "n"), "POST", "/undrain", "n takes jobs again; 3 running\n"),
        (("taint", "n", "disk=old"), "POST", "/taints", "n tainted disk=old:no-schedule; 3 running\n"),
        (("untaint", "n", "disk"), "DELETE", "/taints", "n has no taint disk of ours\n"),
        (("rm", "n"), "DELETE", "", "n removed\n"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_node_is_changed(stub: Stub, ares: Ares, words: tuple[str, ...], method: str, path: str, said: str) -> None:
    view = {"name": "n", "info": {"name": "n", "cpuMilli": 1, "memoryMib": 1}, "running": 3}
    stub.on(method, f"/v1/nodes/n{path}", view)
    assert ares("node", *words).out == said
    assert json.loads(ares("node", *words, "-o", "json").out) == view
    assert stub.requests("GET", "/v1/nodes") == []


@pytest.mark.usefixtures("now")
def test_tokens(stub: Stub, ares: Ares) -> None:
    record = {"id": "tok", "tenant": "default", "role": "viewer", "name": "ci", "createdAt": 1000.0, "revoked": False}
    stub.on("POST", "/v1/tokens", {"token": "ares_tok_secret", "record": record})
    stub.on("POST", "/v1/join-tokens", {"token": "ares_join_secret", "record": record})
    stub.on("GET", "/v1/tokens", {"tokens": [
        {**record, "expiresAt": 8200.0}, {**record, "expiresAt": 4000.0}, {**record, "revoked": True, "node": "n"},
    ]})  # fmt: skip
    assert ares("token", "create", "--role", "viewer", "--ttl", "1h").out == "ares_tok_secret\n"
    assert stub.asked[-1].body == {"role": "viewer", "name": "", "ttlS": 3600.0}
    assert ares("token", "join", "--node", "n").out == "ares_join_secret\n"
    assert stub.asked[-1].body == {"node": "n"}
    rows = [line.split() for line in ares("token", "list").out.splitlines()[1:]]
    assert [row[5:] for row in rows] == [
        ["valid", "1h", "in", "1h"], ["expired", "1h", "-"], ["n", "revoked", "1h", "never"],
    ]  # fmt: skip


# ---- text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (-3, "0s"), (0.9, "0s"), (59, "59s"), (60, "1m"), (61, "1m1s"), (3599, "59m59s"), (3600, "1h"),
     (7500, "2h5m"), (86_400, "1d"), (90_000, "1d1h"), (8_640_000, "100d")],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_amounts() -> None:
    assert [memory(n) for n in (1, 1023, 1024, 1536, 4096)] == ["1Mi", "1023Mi", "1Gi", "1536Mi", "4Gi"]
    assert [cpus(n) for n in (1, 500, 1000, 1500)] == ["0.001", "0.5", "1", "1.5"]


@given(st.text())
def test_nothing_in_a_cell_steers_a_terminal(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    if text.isascii() and text.isprintable():
        assert shown == text


@given(st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=5), st.integers(1, 30))
@example([("\u0591", "")], 1)
def test_lines_fit_the_terminal(rows: list[tuple[str, str]], width: int) -> None:
    lines = layout(("NAME", "STATE"), rows, width)
    assert len(lines) == len(rows) + 1
    # In columns: accents take none, and an ideograph takes two.
    shown = [[unicodedata.east_asian_width(char) for char in line if not unicodedata.combining(char)] for line in lines]
    assert all(len(chars) + chars.count("W") + chars.count("F") <= width for chars in shown)


def test_cut_lines_say_so_and_colours_are_for_states_only() -> None:
    assert layout(("A", "B"), [("x", "abcdefgh"), ("y", "日本語日本語")], 10) == ["A  B", "x  abcdef…", "y  日本語…"]
    assert layout(("ID", "NAME", "STATE"), [("1", "n" * 128, "FAILED")], 40) == [
        "ID  NAME        STATE",
        "1   nnnnn…nnnn  FAILED",
    ]
    assert layout(("STATE", "B"), [("FAILED", "x")], 40, 0) == ["STATE   B", "\x1b[31mFAILED\x1b[0m  x"]


# ---- logs on a terminal


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain\ttext\r\n", "plain\ttext\r\n"),
        (b"\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m\x1b[0m"),
        (b"a\x1b[2Jb\x1b[1;1Hc\x1b[?25ld", "abcd"),
        (b"a\x1b]0;title\x07b\x1b]52;c;cGF5\x1b\\c", "abc"),
        (b"a\x1bPq#0\x1b\\b\x1bcd\x1b(Be", "abde"),
        (b"bell\x07back\x08del\x7fnul\x00", "bellbackdelnul"),
        ("c1\x9b2Jx\x9d0;t\x9cy".encode(), "c1xy"),
        (b"\xff\xfe \xc3\xa9 \xe2\x82", "\ufffd\ufffd é \ufffd"),
        (b"open\x1b]0;never ends", "open0;never ends"),
        (b"\x1b[31", ""),
    ],
)
def test_terminal_filter(raw: bytes, shown: str) -> None:
    whole = TerminalFilter()
    assert whole.feed(raw) + whole.end() == shown
    split = TerminalFilter()
    assert "".join(split.feed(raw[n : n + 1]) for n in range(len(raw))) + split.end() == shown


HOSTILE = st.lists(
    st.sampled_from(
        [b"\x1b", b"[", b"]", b"31m", b"2J", b"\x07", b"\\", b"\x9b", b"\xc2\x9b", b"x", b"0;t", b"\n", b"P"]
    )
).map(b"".join)


@given(HOSTILE, st.lists(st.integers(0, 60), max_size=5))
def test_only_colours_pass_whatever_comes_however_cut(raw: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    clean = TerminalFilter()
    shown = "".join(clean.feed(raw[a:b]) for a, b in itertools.pairwise(edges)) + clean.end()
    rest = re.sub("\x1b\\[[0-9;:]*m", "", shown)
    assert not re.search("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f]", rest)


def test_an_endless_escape_does_not_hold_the_output_back() -> None:
    clean = TerminalFilter()
    assert "x" * 5000 in clean.feed(b"\x1b]0;" + b"x" * 5000)
