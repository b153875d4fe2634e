"""Amounts, keys and layers: from what people write to a JobSpec."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.edge.client import units, wishes
from ares.edge.client.ask import FOREIGN, FRIENDLY, GATHERED, OR, JobFields, _camel, job_spec, spec_from
from ares.edge.client.errors import InvalidSpec
from ares.model.job import DataInput, JobSpec, Resources, RetryPolicy, TopologyWish


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (units.memory_mib, "512M", 512), (units.memory_mib, "4G", 4096), (units.memory_mib, "4Gi", 4096),
        (units.memory_mib, "4GiB", 4096), (units.memory_mib, "4gb", 4096), (units.memory_mib, "1.5T", 1_572_864),
        (units.memory_mib, "1k", 1), (units.memory_mib, "1025K", 2), (units.memory_mib, " 2 G ", 2048),
        (units.seconds, "90s", 90), (units.seconds, "2h", 7200), (units.seconds, "1d12h", 129_600),
        (units.seconds, "1h30m5s", 5405), (units.seconds, "500ms", 0.5), (units.seconds, "1.5h", 5400),
        (units.seconds, "0", 0), (units.seconds, "01:30:00", 5400), (units.seconds, "1-12:00:00", 129_600),
        (units.seconds, "5m", 300), (units.seconds, "2H", 7200),
        (units.cpu_milli, "2", 2000), (units.cpu_milli, "1.5", 1500), (units.cpu_milli, "500m", 500),
        (units.cpu_milli, 1.5, 1500), (units.cpu_milli, 3, 3000), (units.cpu_milli, "0.001", 1),
    ],
)  # fmt: skip
def test_amounts(read: Callable[[Any], float], text: object, value: float) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "fix"),
    [
        (units.memory_mib, "4096", "4096M"), (units.memory_mib, 4096, "4096M"), (units.memory_mib, "", "512M"),
        (units.memory_mib, "-1G", "512M"), (units.memory_mib, "4X", "512M"), (units.memory_mib, "G", "512M"),
        (units.seconds, "60", "60s"), (units.seconds, 60, "60s"), (units.seconds, "1h2x", "90s"),
        (units.seconds, "90:00", "01:30:00"), (units.seconds, "-5s", "90s"), (units.seconds, "", "90s"),
        (units.seconds, "1e9s", "90s"), (units.cpu_milli, "two", "500m"), (units.cpu_milli, "1.2345", "500m"),
        (units.cpu_milli, "-1", "500m"), (units.cpu_milli, True, "500m"), (units.cpu_milli, "٣", "500m"),
    ],
)  # fmt: skip
def test_what_is_no_amount_says_how_to_write_it(read: Callable[[Any], float], text: object, fix: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        read(text)
    assert fix in caught.value.fix


@given(st.integers(0, 99), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_clocks_and_units_agree(d: int, h: int, m: int, s: int) -> None:
    assert units.seconds(f"{d}-{h:02}:{m:02}:{s:02}") == units.seconds(f"{d}d{h}h{m}m{s}s")


def test_keywords_make_a_spec() -> None:
    made = job_spec(
        command=["python", "train.py"], name="train", gpus=2, gpu_model="A100", cpus=1.5, memory="4G", time="2h",
        grace="10s", lease="60s", retries=5, env={"A": "1"}, priority="HIGH", array="0-9",
    )  # fmt: skip
    assert made == JobSpec(
        command=("python", "train.py"), name="train", env={"A": "1"}, priority="HIGH", array="0-9",
        resources=Resources(cpu_milli=1500, memory_mib=4096, gpus=2, gpu_model="A100"),
        retry=RetryPolicy(limit=5), time_limit_s=7200.0, grace_s=10.0, lease_s=60.0,
    )  # fmt: skip


def test_a_script_runs_in_a_shell() -> None:
    assert job_spec(script="a | b\n").command == ("/bin/sh", "-c", "a | b\n")


def test_later_layers_override_and_maps_are_joined() -> None:
    below = {"command": ["a"], "env": {"A": "1", "B": "2"}, "resources": {"gpus": 4, "cpuMilli": 500}, "time": "1h"}
    above = {"command": ["b"], "env": {"B": "3"}, "gpus": 1, "time": "2h"}
    made = spec_from(below, above)
    assert made.command == ("b",)
    assert made.env == {"A": "1", "B": "3"}
    assert (made.resources.gpus, made.resources.cpu_milli, made.time_limit_s) == (1, 500, 7200.0)


def test_what_the_api_prints_can_be_submitted_again() -> None:
    spec = job_spec(command=["x"], gpus=1, env={"A": "b"}, array="0-3", time="3s", labels={"k": "v"})
    assert spec_from(msgspec.to_builtins(spec)) == spec


@pytest.mark.parametrize(
    ("asked", "says", "fix"),
    [
        ({"command": ["x"], "gpuss": 1}, "unknown key gpuss", "did you mean gpus?"),
        ({"run": "python train.py"}, "unknown key run", "script: says what a shell runs"),
        ({"apiVersion": "v1", "kind": "Pod"}, "unknown key apiVersion", "a Kubernetes manifest is no job file"),
        ({"command": ["x"], "resources": {"gpu": 1}}, "unknown key resources.gpu", "did you mean resources.gpus?"),
        ({"command": ["x"], "retry": {"zzz": 1}}, "unknown key retry.zzz", "known keys: retry.baseS"),
        ({"command": ["x"], "gpu_model": "A"}, "unknown key gpu_model", "gpuModel"),
        ({"command": ["x"], "memory": "4G", "resources": {"memoryMib": 1}}, "both given", "keep only memory"),
        ({"command": ["x"], "script": "y"}, "both given", "keep only script"),
        ({"command": "python x.py"}, "command is text", "script:"),
        ({"command": []}, "no command", "after --"),
        ({}, "no command", "after --"),
        ({"command": ["x"], "gpus": -1}, "resources.gpus: expected int >= 0", ""),
        ({"command": ["x"], "gpus": 10**30}, "resources.gpus", ""),
        ({"command": ["x"], "gpus": "2"}, "resources.gpus: expected int, got str", ""),
        ({"command": ["x", 3]}, r"command\[1\]: expected str, got int", ""),
        ({"command": ["x"], "env": {"A": 3}}, "env", "in quotes"),
        ({"command": ["x"], "env": {"1A": "x"}}, "env", ""),
        ({"command": ["x"], "priority": "URGENT"}, "priority: invalid enum value 'URGENT'", "one of CRITICAL, HIGH"),
        ({"command": ["x"], "restart": False}, "restart", "one of never, on-failure, always"),
        ({"command": ["x"], "chdir": "here"}, "workdir", "absolute path"),
        ({"command": ["x"], "name": "a\nb"}, "name", ""),
        ({"command": ["x"], "resources": "all"}, "resources: expected object, got str", ""),
        ({"command": ["x"], "gpuShare": 1.5}, "GPU share '1.5' is not between", "0.5"),
        ({"command": ["x"], "gpuShare": 0}, "GPU share '0' is not between", "0.5"),
        ({"command": ["x"], "device": "tpu="}, "'tpu=' is not a name and a number", "tpu-v4=2"),
        ({"command": ["x"], "or": "gpus=2,colour=red"}, "unknown key or: colour", "known keys: or: cpuMilli"),
        ({"command": ["x"], "or": ["gpus=2"], "alternatives": []}, "both given", "keep only or"),
        ({"command": ["x"], "or": [3]}, "alternative 3 is no set of resources", "gpus=4,gpu-model=A100"),
        ({"command": ["x"], "or": "gpus=many"}, r"alternatives\[0\].gpus: expected int, got str", ""),
        ({"command": ["x"], "minRanks": 2}, "gang: object missing required field ranks", "ranks"),
        ({"command": ["x"], "gang": {"ranks": 2, "size": 3}}, "unknown key gang.size", "known keys: gang.assemblyS"),
        ({"command": ["x"], "topology": "room"}, "topology 'room' is not a level", "nvlink, node, rack"),
        ({"command": ["x"], "topology": "rack:maybe"}, "topology 'rack:maybe'", "rack:required"),
        ({"command": ["x"], "topology": {"lvl": "rack"}}, "unknown key topology.lvl", "did you mean topology.level?"),
        ({"command": ["x"], "numa": "always"}, "numa: invalid enum value", "one of none, preferred, required"),
        ({"command": ["x"], "qos": "gold"}, "qos: invalid enum value", "one of guaranteed, burstable"),
        ({"command": ["x"], "team": "A B"}, "team: expected str of another form", "lower-case letters"),
        ({"command": ["x"], "require": "zone in"}, "'zone in' compares with nothing", "zone in a,b"),
        ({"command": ["x"], "prefer": "a b c"}, "'a b c' is no condition", "zone in a,b"),
        ({"command": ["x"], "prefer": "!a in b"}, "is no condition", "!zone"),
        ({"command": ["x"], "require": 3}, "3 is not text", "list of texts"),
        ({"command": ["x"], "near": "app"}, "'app' names no labels of jobs", "app=web@rack"),
        ({"command": ["x"], "away": "app=x@room"}, "'app=x@room' names no level", "one of node, rack"),
        ({"command": ["x"], "inputs": "imagenet"}, "is not a name and a dataset, or a size", "imagenet=120G"),
        ({"command": ["x"], "inputs": {"imagenet": "120"}}, "has no unit", "120G"),
        ({"command": ["x"], "deadline": "soon"}, "neither a duration nor a moment", "2h"),
        ({"command": ["x"], "checkpointSignal": "SIGKILL"}, "'SIGKILL' is no signal for this", "SIGUSR1"),
        ({"command": ["x"], "tolerations": [{"kee": "a"}]}, r"unknown key tolerations\[0\].kee", "key?"),
        ({"command": ["x"], "tolerations": ["a"]}, r"tolerations\[0\]: expected object, got str", "key, value"),
    ],
)  # fmt: skip
def test_mistakes_are_named(asked: dict[str, Any], says: str, fix: str) -> None:
    with pytest.raises(InvalidSpec, match=says) as caught:
        spec_from(asked)
    assert fix in caught.value.fix


def test_a_friendly_key_over_a_wrong_section_is_explained() -> None:
    with pytest.raises(InvalidSpec, match="resources"):
        spec_from({"command": ["x"], "resources": "all", "gpus": 1})


def test_what_stands_for_keys_of_other_tools_exists() -> None:
    known = {*FRIENDLY, *(field.encode_name for field in msgspec.structs.fields(JobSpec))}
    for key, hint in FOREIGN.items():
        assert key not in known
        assert not [name for name in re.findall(r"\b(\w+):", hint) if name not in known], hint


def test_friendly_keys_hide_no_field_of_the_api() -> None:
    names = {field.encode_name for field in msgspec.structs.fields(JobSpec)}
    assert not names & {*FRIENDLY, *GATHERED, OR}


def test_every_field_of_a_job_can_be_asked_for_by_keyword() -> None:
    """Under its own name, or as the friendlier keys that lead to it."""
    known = {_camel(name.rstrip("_")) for name in get_type_hints(JobFields)}
    led_to = {path[0] for key, (path, _) in FRIENDLY.items() if key in known}
    led_to |= {field for key, (field, _) in GATHERED.items() if key in known}
    fields = {field.encode_name for field in msgspec.structs.fields(JobSpec)}
    assert fields - known - led_to == set()
    assert {*FRIENDLY, *GATHERED, OR} <= known


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("zone in a,b", {"key": "zone", "op": "in", "values": ["a", "b"]}),
        ("zone in (a, b)", {"key": "zone", "op": "in", "values": ["a", "b"]}),
        ("zone notin (a)", {"key": "zone", "op": "not-in", "values": ["a"]}),
        ("zone not in a", {"key": "zone", "op": "not-in", "values": ["a"]}),
        ("disk=ssd", {"key": "disk", "op": "in", "values": ["ssd"]}),
        ("disk != hdd", {"key": "disk", "op": "not-in", "values": ["hdd"]}),
        ("example.com/ram > 40", {"key": "example.com/ram", "op": "gt", "values": ["40"]}),
        ("age<5", {"key": "age", "op": "lt", "values": ["5"]}),
        ("inner", {"key": "inner", "op": "exists"}),
        ("!inner", {"key": "inner", "op": "absent"}),
    ],
)
def test_conditions_on_labels_as_kubectl_writes_them(text: str, term: dict[str, Any]) -> None:
    assert wishes.require(text) == term
    assert wishes.prefer(text) == {**term, "required": False}


def test_short_forms_in_a_file() -> None:
    made = spec_from({
        "command": ["x"], "gpus": 2, "gpuModel": "H100", "memory": "8G", "or": [{"gpus": 4, "gpuModel": "A100"}],
        "inputs": {"imagenet": "120G"}, "licences": {"matlab": 2}, "topology": "nvlink", "require": "zone=a",
        "affinity": [{"key": "disk", "values": ["ssd"], "weight": 5, "required": False}],
        "deadline": datetime(2026, 12, 1, 18, tzinfo=UTC),
    })  # fmt: skip
    assert made.alternatives == (Resources(memory_mib=8192, gpus=4, gpu_model="A100"),)
    assert made.inputs == (DataInput(name="imagenet", size_mib=122_880),)
    assert made.licences == {"matlab": 2}
    assert made.topology == TopologyWish(level="nvlink")
    assert [(term.key, term.required) for term in made.affinity] == [("disk", False), ("zone", True)]
    assert made.deadline_at == datetime(2026, 12, 1, 18, tzinfo=UTC).timestamp()
    # As the API prints it, with every field written out.
    whole = msgspec.to_builtins(made) | {"gang": None, "warn": None, "array": None}
    assert spec_from(whole) == made


def test_a_deadline_is_a_time_from_now_or_a_moment() -> None:
    before = time.time()
    assert before + 5400 <= wishes.deadline("1h30m") <= time.time() + 5400
    assert wishes.deadline("2026-12-01T18:00:00+01:00") == datetime(2026, 12, 1, 17, tzinfo=UTC).timestamp()
