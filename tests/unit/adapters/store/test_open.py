"""Opening by URL, and what a bare installation needs for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from ares.adapters.store.epoch import ensure_epoch
from ares.adapters.store.limits import prefix_end
from ares.adapters.store.memory import MemoryStore, StoreFault
from ares.adapters.store.open import open_store
from ares.core.keys import EPOCH
from ares.ports.store import Committed, Put, StoreUnavailable
from tests.unit.adapters.store.virtual import VirtualClock

ROOT = Path(__file__).parents[4]


class Dice:
    def uniform(self) -> float:
        return 0.5

    def token(self, n_bytes: int) -> bytes:
        return bytes(range(n_bytes))


@pytest.mark.parametrize("url", ["memory:", "sqlite://{path}/a.db"])
async def test_opens_what_the_url_names(tmp_path: Path, url: str) -> None:
    store = await open_store(url.format(path=tmp_path), VirtualClock())
    assert isinstance(await store.txn([], [Put("/a", b"1")]), Committed)
    await store.close()
    assert (tmp_path / "a.db").exists() is url.startswith("sqlite")


@pytest.mark.parametrize(
    "url", ["", "memory", "sqlite:", "sqlite://relative/a.db", "sqlite:///", "etcd://", "etcd://h:1/path", "mysql://h"]
)
async def test_other_urls_are_refused_with_the_forms_there_are(url: str) -> None:
    with pytest.raises(ValueError, match="etcd://host:port"):
        await open_store(url, VirtualClock())


def test_without_etcd_nothing_of_grpc_is_imported() -> None:
    program = """
import asyncio, sys
from ares.adapters.store.open import open_store
class Clock:
    def monotonic(self): return 0.0
asyncio.run(open_store("memory:", Clock()))
print([name for name in ("grpc", "google.protobuf", "apsw") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "src")},
        check=True,
    )
    assert done.stdout.strip() == "[]"


async def test_the_epoch_is_made_once() -> None:
    store = MemoryStore(VirtualClock())
    assert await ensure_epoch(store, Dice()) == 1
    first = await store.get(EPOCH)
    assert await ensure_epoch(store, Dice()) == 1
    assert first is not None
    assert first.value == b'{"epoch":1,"id":"000102030405060708090a0b0c0d0e0f"}'
    assert await store.get(EPOCH) == first


@pytest.mark.parametrize("kind", ["reply_lost", "request_lost"])
async def test_the_epoch_survives_an_unknown_outcome(kind: str) -> None:
    store = MemoryStore(VirtualClock())
    store.faults.next(StoreFault(kind))  # pyright: ignore[reportArgumentType]
    assert await ensure_epoch(store, Dice()) == 1
    found = await store.get(EPOCH)
    assert found is not None
    assert found.version == 1


async def test_an_epoch_that_cannot_be_written_is_not_made_up() -> None:
    store = MemoryStore(VirtualClock())
    store.faults.next(*[StoreFault("request_lost")] * 5)
    with pytest.raises(StoreUnavailable, match="epoch"):
        await ensure_epoch(store, Dice())


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("a", "b"),
        ("/jobs/", "/jobs0"),
        ("a\U0010ffff", "b"),
        ("\ud7ff", "\ue000"),
        ("", None),
        ("\U0010ffff" * 2, None),
    ],
)
def test_the_end_of_a_prefix(prefix: str, end: str | None) -> None:
    assert prefix_end(prefix) == end
    if end is not None:
        assert (prefix + "\U0010ffff" * 3).encode() < end.encode()
