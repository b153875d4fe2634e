"""What comes from outside is JSON of a known form, or it is refused; nothing in it is ever run or given away."""

import asyncio
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from ares.agent.files.job_files import read_progress, read_result
from ares.api.jobs import SubmitBody
from ares.edge.rest.http.problems import Problem
from ares.edge.rest.http.strict import StrictDecoder
from ares.model.job import RetryPolicy
from tests.integration.api.world import JOB, World
from tests.security.audited import entries
from tests.tidy.source import SRC, python_files
from tests.world import World as Plane

# ---- N29: never unpickled, never run


class Trap:
    """Whoever unpickles it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


def traps(marker: Path) -> list[bytes]:
    pickled = [pickle.dumps(Trap(marker), protocol) for protocol in (0, 2, 5)]
    python = f"!!python/object/apply:os.mkdir ['{marker}']\n".encode()
    return [*pickled, python, b'{"a": ' + python + b"}", b"__import__('os').mkdir('" + str(marker).encode() + b"')"]


def test_results_and_progress_are_json_and_nothing_else(tmp_path: Path) -> None:
    """N29: pickles and YAML objects that a job writes are told as what they are: no JSON."""
    marker, file = tmp_path / "marker", tmp_path / "written"
    for trap in traps(marker):
        file.write_bytes(trap)
        result = read_result(str(file))
        assert (result.value, "cannot be kept" in result.trouble) == (b"", True), trap
        assert read_progress(str(file)) is None
    assert not marker.exists()
    pickle.loads(traps(marker)[0])
    assert marker.exists(), "the trap itself does not work"


async def test_an_agent_that_sends_a_pickle_as_a_result_fails_its_attempt(tmp_path: Path) -> None:
    """N29: what a compromised node reports is looked at in the same way."""
    marker = tmp_path / "marker"
    async with Plane() as plane:
        agent = await plane.agent()
        for trap in traps(marker):
            job = await plane.submit(retry=RetryPolicy(limit=0))
            await plane.settle()
            agent.exited(agent.starts[job], value=trap)
            await plane.settle()
            state = plane.state(job)
            assert (state.phase, "cannot be kept" in state.reason) == ("FAILED", True), state
    assert not os.access(marker, os.F_OK)


def test_nothing_here_can_build_objects_from_bytes() -> None:
    """N29: no unpickling, no YAML beyond plain values, no evaluation of text, anywhere in the product."""
    forbidden = ("import pickle", "import shelve", "import dill", "yaml.unsafe_load", "yaml.full_load", "jsonpickle")
    texts = {str(path.relative_to(SRC)): path.read_text() for path in python_files(SRC)}
    assert not [f"{path}: {word}" for path, text in texts.items() for word in forbidden if word in text]
    # marshal builds plain values only; it is spoken between the agent and its own children.
    assert all("adapters/executors" in path for path, text in texts.items() if "import marshal" in text)


# ---- N39: numbers

BAD_NUMBERS = (
    "-1", "0.5", "1e400", "NaN", "Infinity", "-Infinity", "9223372036854775808", "1e30", '"1"', "true", "[]", "null",
)  # fmt: skip
INTEGERS = ("cpuMilli", "memoryMib", "gpus", "gpuMilli", "gpuMemoryMib")


async def test_amounts_that_are_none_are_refused(world: World) -> None:
    """N39: negative, fractional, too large, not a number; of resources, costs and times."""
    async with world.client() as client:
        fields = [f'{{"spec": {{"command": ["true"], "resources": {{"{name}": %s}}}}}}' for name in INTEGERS]
        fields += ['{"spec": {"command": ["true"], "resources": {"devices": {"tpu": %s}}}}']
        for field in fields:
            for number in BAD_NUMBERS:
                await _refused(client, field % number)
        for name in ("costEstimate", "expectedRuntime", "estimateCores"):
            for number in ("-1", "NaN", "Infinity", "1e400", '"1"', "true", "[]"):
                await _refused(client, f'{{"spec": {{"command": ["true"]}}, "{name}": {number}}}')
        for name in ("timeLimitS", "graceS", "leaseS", "expectedRuntimeS", "deadlineAt", "gapMinS"):
            for number in ("-1", "NaN", "1e400", '"1"', "true"):
                await _refused(client, f'{{"spec": {{"command": ["true"], "{name}": {number}}}}}')
    assert not world.view.entries


async def _refused(client: Any, content: str) -> None:
    answer = await client.post("/v1/jobs", content=content.encode(), headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422), f"{content}: {answer.status_code}"
    assert answer.json()["code"] in ("invalid", "malformed-json", *_ADMISSION), content


_ADMISSION = ("gpu-memory-without-gpus", "gpu-share-without-gpus")


# ---- N45 and N9: request ids


async def test_a_request_id_used_with_another_payload_tells_nothing_of_the_first(world: World) -> None:
    """N45: neither what it asked for nor which job it became; also to a colleague, and in a batch."""
    first = {"spec": {**JOB, "name": "first-canary", "labels": {"of": "canary"}}, "requestId": "nightly"}
    second = {"spec": {**JOB, "name": "second"}, "requestId": "nightly"}
    async with world.client() as mine, world.client() as colleague:
        made = await mine.post("/v1/jobs", json=first)
        assert made.status_code == 201
        job = made.json()["id"]
        for client in (mine, colleague):
            answers = [
                await client.post("/v1/jobs", json=second),
                await client.post("/v1/jobs:batch", json={"jobs": [second]}),
            ]
            assert answers[0].status_code == 409
            assert answers[0].json()["code"] == "request-conflict"
            for answer in answers:
                assert "canary" not in answer.text
                assert job not in answer.text
        again = await mine.post("/v1/jobs", json=first)
        assert (again.status_code, again.json()["id"]) == (200, job)
    assert len(world.view.entries) == 1


async def test_another_tenants_request_id_is_ones_own(world: World) -> None:
    """N9: a job of one's own, and not a word about the other one, whatever both asked for."""
    body = {"spec": {**JOB, "name": "canary"}, "requestId": "shared-id"}
    other = {"spec": {**JOB, "name": "different"}, "requestId": "shared-id"}
    async with world.client(tenant="acme") as acme, world.client(tenant="evil") as evil:
        theirs = (await acme.post("/v1/jobs", json=body)).json()["id"]
        for payload in (other, body):
            answer = await evil.post("/v1/jobs", json=payload)
            assert theirs not in answer.text
            assert "acme" not in answer.text
        both = [await evil.post("/v1/jobs", json=other), await evil.post("/v1/jobs", json=body)]
        # Its own first use of the id counts, as if nobody else had ever used it.
        assert [answer.status_code for answer in both] == [200, 409]
        assert {entry.state.tenant for entry in world.view.entries.values()} == {"acme", "evil"}


async def test_at_the_same_time_two_tenants_get_two_jobs(world: World) -> None:
    """N9: also when both come at once."""
    body = {"spec": JOB, "requestId": "at-once"}
    async with world.client(tenant="acme") as acme, world.client(tenant="evil") as evil:
        answers = await asyncio.gather(
            *(client.post("/v1/jobs", json=body) for client in (acme, evil) for _ in range(5))
        )
    assert {answer.status_code for answer in answers} == {200, 201}
    assert (
        len({answer.json()["id"] for answer in answers[:5]})
        == len({answer.json()["id"] for answer in answers[5:]})
        == 1
    )
    assert answers[0].json()["id"] != answers[5].json()["id"]


# ---- N36, the part that is about JSON itself


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b'{"spec": {"command": ["true"], "command": ["false"]}}', "duplicate-key"),
        (b'{"spec": {"command": ["true"]}, "spec": {"command": ["false"]}}', "duplicate-key"),
        (b'{"spec": {"command": ["true"], "env": {"A": "1", "A": "2"}}}', "duplicate-key"),
        (b'{"spec": {"command": ["true"], "env": {"A": "1", "\\u0041": "2"}}}', "duplicate-key"),
        (b"[" * 100_000 + b"]" * 100_000, "too-deep"),
        (b'{"spec":' * 100_000, "too-deep"),
        (b'{"spec": {"command": ["true"]}} {}', "malformed-json"),
        (b'\xef\xbb\xbf{"spec": {"command": ["true"]}}', "malformed-json"),
        (b'{"spec": {"command": ["\xff"]}}', "malformed-json"),
        ('{"spec": {"command": ["true"]}}'.encode("utf-16"), "malformed-json"),
    ],
    ids=["field", "body", "map", "escaped", "arrays", "objects", "trailing", "bom", "latin", "utf-16"],
)
def test_json_that_means_two_things_or_none(content: bytes, code: str) -> None:
    """N36: at the border itself, without a server."""
    with pytest.raises(Problem) as refused:
        StrictDecoder(SubmitBody).decode(content)
    assert refused.value.code == code
    json.dumps(refused.value.document())


# ---- N22: references


async def test_references_that_lead_inside_are_refused_and_nobody_calls(world: World) -> None:
    """N22: not kept, told to the audit, and nothing connects: neither then nor for one that is taken."""
    called: list[object] = []
    server = await asyncio.start_server(lambda _, writer: (called.append(1), writer.close()), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, world.client() as client:
        for ref in (f"https://127.0.0.1:{port}/", f"https://2130706433:{port}/", "file:///etc/passwd", "gopher://x/"):
            answer = await client.post("/v1/jobs", json={"spec": JOB, "inputRefs": [ref]})
            assert (answer.status_code, answer.json()["code"]) == (422, "input-ref"), answer.text
            inside = await client.post("/v1/jobs", json={"spec": {**JOB, "inputRefs": [ref]}})
            assert (inside.status_code, inside.json()["code"]) == (422, "input-ref"), inside.text
        taken = await client.post("/v1/jobs", json={"spec": JOB, "inputRefs": [f"https://rebinds.example.org:{port}/"]})
        assert taken.status_code == 201
    assert not called
    assert [one.reason for one in entries(world) if one.outcome == "DENY"] == ["ssrf"] * 8
