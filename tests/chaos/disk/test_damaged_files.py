"""The smaller files, damaged: kept decisions, a node's credential and boot number, client.json, job output."""

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ares.adapters.decisions import FileDecisions
from ares.adapters.logs.files import FileLogs
from ares.agent.link import identity
from ares.app import connection_file
from ares.edge.client.errors import NotConfigured
from ares.edge.client.settings import discover
from tests.chaos.disk import spoil
from tests.chaos.disk.spoil import Spoilt
from tests.platform import say

SOME, ALL = 15, pytest.param(500, marks=pytest.mark.soak)
COUNT = pytest.mark.parametrize("count", [SOME, ALL])
Count = Callable[[str, object], None]
WALL_S = 1_700_000_000.0


def variants(data: bytes, count: int, seed: int, page: int) -> Iterator[Spoilt]:
    rng = random.Random(seed)
    yield from spoil.single_flips(data, count, rng)
    yield from spoil.flips(data, count, rng)
    yield from spoil.cuts(data, count, rng)
    yield from spoil.pages(data, count, rng, page)


@COUNT
def test_kept_decisions(tmp_path: Path, seed: int, count: int, record_property: Count) -> None:
    """Each is found as it was, or not at all."""
    bodies = {f"d{number}": json.dumps({"decision": number, "why": "x" * 40 * number}).encode() for number in range(20)}
    kept = FileDecisions(tmp_path, lambda dropped: None)
    for name, body in bodies.items():
        kept.append(name, f"job-{name}", lambda body=body: body)
    kept.close()
    (file,) = tmp_path.iterdir()
    seen: Counter[str] = Counter()

    async def find_all() -> list[bytes | None]:
        return [await FileDecisions(tmp_path, lambda dropped: None).find(name) for name in bodies]

    for what, data in variants(file.read_bytes(), count, seed, 256):
        file.write_bytes(data)
        found = asyncio.run(find_all())
        for body, answer in zip(bodies.values(), found, strict=True):
            assert answer in (None, body), what
        # Nothing comes back out of order: what is kept is a beginning, but for what was moved as a whole.
        lost = found.count(None)
        seen["whole" if not lost else "prefix"] += 1
    say(f"decisions: {dict(seen)}")
    record_property("cases", seen.total())
    assert seen["prefix"] > seen.total() / 2


@COUNT
def test_credential_and_boot_number(tmp_path: Path, seed: int, count: int, record_property: Count) -> None:
    """What no control plane has issued is not presented to one; the boot number grows all the same."""
    credential = "ares_0123456789_" + "A1b2-" * 8 + "xyz"
    identity.save(credential, tmp_path)
    boot = identity.begin_boot(tmp_path, WALL_S)
    seen: Counter[str] = Counter()
    for what, data in variants((tmp_path / "credential").read_bytes(), count, seed, 16):
        (tmp_path / "credential").write_bytes(data)
        try:
            loaded = identity.load(tmp_path)
        except identity.DamagedCredential:
            seen["refused"] += 1
            continue
        # Of one line: a header of a request is made of it.
        assert loaded is None or re.fullmatch(r"[!-~]+", loaded), what
        seen["none" if loaded is None else "same" if loaded == credential else "another"] += 1
    for what, data in variants((tmp_path / "boot").read_bytes(), count, seed, 4):
        (tmp_path / "boot").write_bytes(data)
        again = identity.begin_boot(tmp_path, WALL_S + 1)
        assert again > boot, what
        assert again < 1 << 63, what
        seen["boot"] += 1
    say(f"identity: {dict(seen)}")
    record_property("cases", seen.total())
    assert seen["refused"]


@COUNT
def test_client_file(tmp_path: Path, seed: int, count: int, record_property: Count) -> None:
    """Read by people's commands and by the server: a message in words, never an exception of Python's."""
    connection_file.write(
        tmp_path, url="http://127.0.0.1:8642", agents="127.0.0.1:8643", token="ares_0123456789_secret"
    )
    file = tmp_path / "client.json"
    seen: Counter[str] = Counter()
    for _, data in variants(file.read_bytes(), count, seed, 16):
        file.write_bytes(data)
        seen["handed over" if connection_file.connection(tmp_path) else "nothing"] += 1
        try:
            discover(env={"ARES_HOME": str(tmp_path)})
            seen["read"] += 1
        except NotConfigured as error:
            seen["refused" if error.fix else "without advice"] += 1
    say(f"client.json: {dict(seen)}")
    record_property("cases", seen.total())
    assert seen["refused"] > seen["read"]


@COUNT
def test_job_output(tmp_path: Path, seed: int, count: int, record_property: Count) -> None:
    """Output has no checksum. A file that was cut short is filled up again from where it ends."""
    data = bytes(random.Random(seed).randrange(256) for _ in range(2 * count))
    logs = FileLogs(tmp_path)
    logs.append("default", "job1", 1, 0, 0, data)
    (file,) = tmp_path.rglob("1-0.log")
    for at in range(len(data)):
        file.write_bytes(data[:at])
        assert logs.append("default", "job1", 1, 0, len(data), b"later") == at
        assert logs.append("default", "job1", 1, 0, max(0, at - 3), data[max(0, at - 3) :]) == len(data)
        assert logs.read("default", "job1", 1, 0, 0, len(data)) == data
    record_property("cases", len(data))
