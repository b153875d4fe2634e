"""Amounts, keys and layers: from what people write to a JobSpec."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.edge.client import units
from ares.edge.client.ask import FRIENDLY, job_spec, spec_from
from ares.edge.client.errors import InvalidSpec
from ares.model.job import JobSpec, Resources, RetryPolicy


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
        ({"command": ["x"], "workdir": "here"}, "workdir", "absolute path"),
        ({"command": ["x"], "name": "a\nb"}, "name", ""),
        ({"command": ["x"], "resources": "all"}, "resources: expected object, got str", ""),
    ],
)  # fmt: skip
def test_mistakes_are_named(asked: dict[str, Any], says: str, fix: str) -> None:
    with pytest.raises(InvalidSpec, match=says) as caught:
        spec_from(asked)
    assert fix in caught.value.fix


def test_a_friendly_key_over_a_wrong_section_is_explained() -> None:
    with pytest.raises(InvalidSpec, match="resources"):
        spec_from({"command": ["x"], "resources": "all", "gpus": 1})


def test_friendly_keys_hide_no_field_of_the_api() -> None:
    names = {field.encode_name for field in msgspec.structs.fields(JobSpec)}
    assert not names & FRIENDLY.keys()
