"""`ares verify`: finds every kind of damage in a real store, none in a sound one, and touches neither."""

import hashlib
import json
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ares.adapters.clocks import SystemClock
from ares.adapters.store.open import take_snapshot
from ares.adapters.store.sqlite.seal import seal_all
from ares.adapters.store.sqlite.sql import connect
from ares.check.store.findings import VerifyReport
from ares.check.store.verify import VerifyOptions, verify
from ares.model.job import FAILURE_CLASSES
from tests.chaos.load import Load
from tests.platform import Platform, StoreKind, run_cli, say

Spoil = Callable[["Spoiler"], None]
DAY_S = 86_400.0


def look(path: Path, tenant: str = "", job: str = "") -> VerifyReport:
    with take_snapshot(f"sqlite://{path}", SystemClock(), lambda done, total: None) as snapshot:
        return verify(snapshot, VerifyOptions(now=time.time(), keep_s=35 * DAY_S, tenant=tenant, job=job))


def wrong(report: VerifyReport) -> dict[str, tuple[str, ...]]:
    return {check.name: check.first for check in report.checks if check.violations}


class Spoiler:
    """Changes single records of a store as only a fault of a program could: their checksums are right."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = sqlite3.connect(path, isolation_level=None)

    def close(self) -> None:
        self._db.close()
        sealed = connect(str(self._path), create=False)
        seal_all(sealed)
        sealed.close()

    def key(self, kind: str, **fields: Any) -> str:
        """The first record of a kind whose fields are these."""
        for key, value in self._db.execute(
            "SELECT key, value FROM kv WHERE key >= ? AND key < ? ORDER BY key", (kind, f"{kind}\U0010ffff")
        ):
            record = json.loads(value)
            if all(record.get(field) == wanted for field, wanted in fields.items()):
                return key
        raise AssertionError(f"the store has no {kind} with {fields}")

    def edit(self, key: str, change: Callable[[dict[str, Any]], object]) -> None:
        """The store's own counts stay."""
        record = self.read(key)
        change(record)
        self._db.execute("UPDATE kv SET value = ? WHERE key = ?", (json.dumps(record).encode(), key))

    def read(self, key: str) -> dict[str, Any]:
        return json.loads(self._db.execute("SELECT value FROM kv WHERE key = ?", (key,)).fetchone()[0])

    def set(self, key: str, column: str, value: object) -> None:
        assert self._db.execute(f"UPDATE kv SET {column} = ? WHERE key = ?", (value, key)).rowcount == 1

    def delete(self, key: str) -> None:
        assert self._db.execute("DELETE FROM kv WHERE key = ?", (key,)).rowcount == 1

    def copy(self, key: str, to: str, change: Callable[[dict[str, Any]], object] = lambda record: None) -> None:
        columns = "value, create_revision, mod_revision, version, lease"
        copied = f"INSERT INTO kv (key, {columns}) SELECT ?, {columns} FROM kv WHERE key = ?"
        assert self._db.execute(copied, (to, key)).rowcount == 1
        self.edit(to, change)

    def sibling(self, kind: str, **fields: Any) -> Callable[[str], str]:
        """The keys of one job's other records."""
        key = self.key(kind, **fields)
        return lambda other: f"{other}{key[len(kind) :]}"

    def job(self, request: str) -> Callable[[str], str]:
        return self.sibling("/state/", requestId=request)


def sets(**fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda record: record.update(fields)


def _hole(s: Spoiler) -> None:
    s.delete(s.job("good")("/events/") + "/0000000002")


def _rewritten(s: Spoiler) -> None:
    s.set(s.job("good")("/events/") + "/0000000002", "version", 2)


def _lied(s: Spoiler) -> None:
    s.edit(s.job("good")("/events/") + "/0000000003", sets(kind="requeued", phase="PENDING"))


def _ended_twice(s: Spoiler) -> None:
    job = s.job("cancelled")
    state = s.read(job("/state/"))
    last = f"{job('/events/')}/{state['seq']:010d}"
    s.edit(last, sets(kind="succeeded", phase="SUCCEEDED"))


def _other_phase(s: Spoiler) -> None:
    s.edit(s.job("long")("/state/"), sets(phase="PENDING"))


def _other_attempt(s: Spoiler) -> None:
    s.edit(s.job("long")("/state/"), sets(attempt=3))


def _other_fence(s: Spoiler) -> None:
    s.edit(s.job("long")("/state/"), sets(fence={"counter": 9}))


def _apart(s: Spoiler) -> None:
    s.set(s.job("good")("/state/"), "mod_revision", 1)


def _stale_grant(s: Spoiler) -> None:
    """The second grant with the fence of the first."""
    job = s.job("long")
    bound = [n for n in range(1, 12) if _kind(s, job, n) == "bound"]
    s.edit(f"{job('/events/')}/{bound[1]:010d}", sets(fence="1.1"))


def _kind(s: Spoiler, job: Callable[[str], str], number: int) -> str:
    try:
        return s.read(f"{job('/events/')}/{number:010d}")["kind"]
    except TypeError:
        return ""


def _from_tomorrow(s: Spoiler) -> None:
    s.edit("/epoch", sets(epoch=0))


def _no_result(s: Spoiler) -> None:
    s.delete(s.job("good")("/results/"))


def _second_result(s: Spoiler) -> None:
    s.set(s.job("good")("/results/"), "version", 2)


def _result_of_old_fence(s: Spoiler) -> None:
    s.edit(s.job("second-try")("/results/"), sets(fence={"counter": 1}))


def _result_for_cancelled(s: Spoiler) -> None:
    here, there = s.job("good"), s.job("cancelled")
    owner = s.read(there("/state/"))["id"]
    s.copy(here("/results/"), there("/results/"), sets(job=owner))


def _result_of_running(s: Spoiler) -> None:
    here, there = s.job("good"), s.job("long")
    s.copy(here("/results/"), there("/results/"), sets(job=s.read(there("/state/"))["id"]))


def _lost_request(s: Spoiler) -> None:
    s.delete("/requests/default/good")


def _strange_request(s: Spoiler) -> None:
    s.copy("/requests/default/good", "/requests/default/of-nobody")


def _swapped_request(s: Spoiler) -> None:
    s.edit("/requests/default/good", sets(job=s.read("/requests/default/bad")["job"]))


def _other_payload(s: Spoiler) -> None:
    s.edit("/requests/default/good", sets(payloadSha256="0" * 64))


def _changed_spec(s: Spoiler) -> None:
    s.edit(s.job("good")("/jobs/"), sets(name="another"))


def _lost_task(s: Spoiler) -> None:
    place = s.key("/state/", index=7).removeprefix("/state/")
    for number in range(1, s.read(f"/state/{place}")["seq"] + 1):
        s.delete(f"/events/{place}/{number:010d}")
    s.delete(f"/state/{place}")
    s.delete(f"/results/{place}")


def _strange_task(s: Spoiler) -> None:
    s.edit(s.key("/state/", index=7), sets(index=9))


def _no_array(s: Spoiler) -> None:
    s.delete(s.key("/arrays/"))


def _free_retry(s: Spoiler) -> None:
    s.edit(s.job("second-try")("/state/"), sets(retries={}))


def _over_limit(s: Spoiler) -> None:
    # Of every class: on a busy machine the first try may have been lost instead of failed.
    none = {"limit": 0, "classLimits": dict.fromkeys(FAILURE_CLASSES, 0)}
    s.edit(s.job("second-try")("/jobs/"), lambda spec: spec["retry"].update(none))


def _too_many_by_hand(s: Spoiler) -> None:
    s.edit(s.key("/retry/"), lambda record: record.update(jobs=record["jobs"] * 11))


def _overdrawn(s: Spoiler) -> None:
    s.edit("/nodes/a", lambda node: node["info"].update(cpuMilli=10))


def _same_gpu(s: Spoiler) -> None:
    s.edit(s.job("long")("/state/"), lambda state: state["placements"][0].update(gpus=[0, 0]))


def _no_such_gpu(s: Spoiler) -> None:
    s.edit(s.job("long")("/state/"), lambda state: state["placements"][0].update(gpus=[77]))


def _no_such_node(s: Spoiler) -> None:
    s.edit(s.job("long")("/state/"), lambda state: state["placements"][0].update(node="b"))


def _future_incarnation(s: Spoiler) -> None:
    s.edit(s.job("long")("/state/"), lambda state: state["placements"][0].update(incarnation=99))


def _no_lease(s: Spoiler) -> None:
    s.delete("/leases/a")


def _old_lease(s: Spoiler) -> None:
    s.edit("/leases/a", sets(incarnation=1))


def _booked_twice(s: Spoiler) -> None:
    s.edit("/reservations/two", sets(placements=s.read("/reservations/one")["placements"]))


def _ends_before(s: Spoiler) -> None:
    s.edit("/reservations/one", sets(until=1.0))


def _bad_token(s: Spoiler) -> None:
    s.edit(s.key("/tokens/", name="bootstrap"), sets(sha256="plain text"))


def _elevated_token(s: Spoiler) -> None:
    s.edit(s.key("/tokens/", role="node"), sets(role="admin"))


def _torn(s: Spoiler) -> None:
    s.set(s.job("good")("/state/"), "value", b'{"id": "g')


def _swapped(s: Spoiler) -> None:
    s.edit(s.job("good")("/state/"), sets(id="somebodyelse0000"))


def _no_epoch(s: Spoiler) -> None:
    s.delete("/epoch")


def _orphan(s: Spoiler) -> None:
    s.delete(s.job("good")("/state/"))


def _no_spec(s: Spoiler) -> None:
    s.delete(s.job("long")("/jobs/"))


def _held_while_running(s: Spoiler) -> None:
    s.edit(s.job("long")("/state/"), sets(evicting=["x"]))


SPOILS: dict[str, tuple[Spoil, str, str]] = {
    "a ledger entry is gone": (_hole, "ledger", "without 2"),
    "a ledger entry was written over": (_rewritten, "ledger", "more than once"),
    "an entry cannot follow": (_lied, "ledger", "cannot follow"),
    "a cancelled job succeeded": (_ended_twice, "ledger", "ledger ends with SUCCEEDED"),
    "the state has another phase": (_other_phase, "ledger", "ends with RUNNING"),
    "the state has another attempt": (_other_attempt, "ledger", "attempt 3"),
    "the state has another fence": (_other_fence, "ledger", "fence 1.9"),
    "state and ledger were written apart": (_apart, "ledger", "not of one transaction"),
    "a state is gone": (_orphan, "ledger", "has no state"),
    "a specification is gone": (_no_spec, "ledger", "no specification"),
    "room is held for who runs": (_held_while_running, "ledger", "room is held"),
    "a fence was granted twice": (_stale_grant, "fences", "was granted after"),
    "the epoch went back": (_from_tomorrow, "fences", "epoch to come"),
    "a result is gone": (_no_result, "results", "without a result"),
    "a result was written twice": (_second_result, "results", "written 2 times"),
    "a result is of an old fence": (_result_of_old_fence, "results", "fence 1.1"),
    "a cancelled job has a result": (_result_for_cancelled, "results", "CANCELLED and has a result"),
    "a running job has a result": (_result_of_running, "results", "RUNNING and has a result"),
    "a request record is gone": (_lost_request, "requests", "would make a second job"),
    "a request is of nobody": (_strange_request, "requests", "does not exist"),
    "two requests have one job": (_swapped_request, "requests", "but job"),
    "a request has another payload": (_other_payload, "requests", "another payload"),
    "a specification was changed": (_changed_spec, "requests", "another payload"),
    "a task is gone": (_lost_task, "arrays", "4 of its 5 tasks"),
    "a task is of no index": (_strange_task, "arrays", "not one of"),
    "an array's record is gone": (_no_array, "arrays", "is not"),
    "a retry was not counted": (_free_retry, "budgets", "by its ledger"),
    "more retries than allowed": (_over_limit, "budgets", "0 are allowed"),
    "too many retries by hand": (_too_many_by_hand, "budgets", "11 times by hand"),
    "a machine is overdrawn": (_overdrawn, "capacity", "of 10 thousandths"),
    "a GPU is given twice": (_same_gpu, "capacity", "2000 thousandths of GPU 0"),
    "a GPU does not exist": (_no_such_gpu, "capacity", "GPU 77"),
    "a machine does not exist": (_no_such_node, "capacity", "does not exist"),
    "an incarnation to come": (_future_incarnation, "capacity", "incarnation 99"),
    "a lease is gone": (_no_lease, "nodes", "no lease"),
    "a lease is of an old incarnation": (_old_lease, "nodes", "its lease at 1"),
    "a GPU is booked twice": (_booked_twice, "reservations", "at the same time"),
    "a reservation ends before it begins": (_ends_before, "reservations", "before it begins"),
    "a token's digest is not one": (_bad_token, "tokens", "not one"),
    "a machine's token is an administrator's": (_elevated_token, "tokens", "role admin"),
    "a record is torn": (_torn, "records", "cannot be read"),
    "a record is somebody else's": (_swapped, "records", "something else"),
    "the epoch is gone": (_no_epoch, "records", "no epoch"),
}


def test_a_sound_store_passes(copy: Path) -> None:
    report = look(copy)
    assert wrong(report) == {}
    assert report.notes == ()
    looked = {check.name: check.looked_at for check in report.checks}
    assert min(looked.values()) > 0
    assert set(looked) == {
        "storage", "records", "ledger", "fences", "results", "requests", "arrays", "budgets", "capacity", "nodes",
        "reservations", "tokens",
    }  # fmt: skip


@pytest.mark.parametrize("what", SPOILS)
def test_each_kind_of_damage_is_named(copy: Path, what: str) -> None:
    spoil, check, words = SPOILS[what]
    spoiler = Spoiler(copy)
    spoil(spoiler)
    spoiler.close()
    found = wrong(look(copy))
    assert any(words in line for line in found.get(check, ())), found


def test_files_that_were_handed_over(living: Platform, copy: Path, tmp_path: Path) -> None:
    """Each is compared with what was committed: one is other, one is gone."""
    kept = tmp_path / "outputs"
    shutil.copytree(living.directory / "outputs", kept)
    command = ("verify", f"--store=sqlite://{copy}", f"--set=outputs={kept}", "--outputs", "--output", "json")

    def found() -> dict[str, Any]:
        checks: Any = run_cli(*command, home=tmp_path).json()
        return next(check for check in checks["checks"] if check["name"] == "outputs")

    clean = found()
    assert (clean["lookedAt"], clean["violations"]) == (2, 0)
    files = sorted(path for path in kept.rglob("*") if path.is_file() and len(path.name) == 64)
    for path in files:
        path.chmod(0o600)
    files[0].write_bytes(b"xxx\n")
    files[1].unlink()
    spoiled = found()
    assert (spoiled["lookedAt"], spoiled["violations"]) == (2, 2)
    assert any("4 bytes with digest" in line for line in spoiled["first"])
    assert any("cannot be read" in line for line in spoiled["first"])


def test_damage_within_the_file_is_named(copy: Path) -> None:
    """Zeroes over a page in the middle, as a disk might leave them."""
    with copy.open("r+b") as file:
        file.seek(os.path.getsize(copy) // 2 // 4096 * 4096)
        file.write(bytes(4096))
    assert "storage" in wrong(look(copy))


def test_one_job_and_one_tenant(copy: Path) -> None:
    spoiler = Spoiler(copy)
    _rewritten(spoiler)
    bad, sound = (spoiler.read(spoiler.job(name)("/state/"))["id"] for name in ("good", "long"))
    task = spoiler.read(spoiler.key("/state/", index=7))["id"]
    spoiler.close()
    assert set(wrong(look(copy, job=bad))) == {"ledger"}
    assert wrong(look(copy, job=sound)) == wrong(look(copy, job=task)) == {}
    assert set(wrong(look(copy, tenant="default"))) == {"ledger"}
    nobody = look(copy, tenant="nobody")
    assert (wrong(nobody), nobody.jobs) == ({}, 0)


def test_command_line(copy: Path, tmp_path: Path) -> None:
    url = f"--store=sqlite://{copy}"
    clean = run_cli("verify", url, "--output", "json", home=tmp_path)
    assert (clean.code, clean.json()["violations"]) == (0, 0), clean  # pyright: ignore[reportIndexIssue, reportUnknownArgumentType]
    spoiler = Spoiler(copy)
    _hole(spoiler)
    spoiler.close()
    found = run_cli("verify", url, home=tmp_path)
    assert found.code == 1, found
    assert "without 2" in found.out
    nothing = run_cli("verify", f"--store=sqlite://{tmp_path}/none.db", home=tmp_path)
    assert (nothing.code, nothing.out) == (2, ""), nothing
    assert "does not exist" in nothing.err


def state_of(directory: Path) -> dict[str, tuple[int, int, str]]:
    return {
        path.name: (path.stat().st_size, path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(directory.iterdir())
    }


def test_a_closed_store_is_not_touched(copy: Path) -> None:
    # As a server leaves it: in the mode in which a usual reader would make files beside it.
    db = sqlite3.connect(copy)
    db.execute("PRAGMA journal_mode = WAL")
    db.close()
    before = state_of(copy.parent)
    assert wrong(look(copy)) == {}
    assert state_of(copy.parent) == before


def test_a_store_whose_server_was_killed_is_not_touched(copy: Path) -> None:
    """What is only in its log is seen, and stays there. Its index is rebuilt by whoever comes first."""
    db = sqlite3.connect(copy, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute("UPDATE kv SET version = 2 WHERE key LIKE '/results/%'")
    crashed = copy.parent / "crashed"
    crashed.mkdir()
    for path in copy.parent.glob(f"{copy.name}*"):
        (crashed / path.name).write_bytes(path.read_bytes())
    db.close()
    before = state_of(crashed)
    assert "results" in wrong(look(crashed / copy.name))
    after = state_of(crashed)
    for name in (copy.name, f"{copy.name}-wal"):
        assert after[name] == before[name]


def test_beside_a_server_that_is_not_disturbed(living: Platform) -> None:
    home = living.servers[0].home
    lock = (home / "store.db.lock").stat()
    found = living.cli("verify", "--output", "json")
    assert (found.code, found.json()["violations"]) == (0, 0), found  # pyright: ignore[reportIndexIssue, reportUnknownArgumentType]
    after = (home / "store.db.lock").stat()
    assert (after.st_mtime_ns, after.st_ino) == (lock.st_mtime_ns, lock.st_ino)
    assert sorted(path.name for path in home.iterdir() if path.name.startswith("store.db")) == [
        "store.db", "store.db-shm", "store.db-wal", "store.db.deciding", "store.db.lock", "store.db.mark",
    ]  # fmt: skip


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["sqlite", pytest.param("etcd", marks=pytest.mark.etcd)])
def test_no_false_alarm_under_load(
    build: Callable[[StoreKind], Platform], tmp_path: Path, seed: int, store: StoreKind
) -> None:
    """Again and again while jobs come, fail, are cancelled and lose their machine."""
    platform = build(store)
    platform.server()
    platform.agent("a")
    platform.agent("b")
    load = Load([platform.client() for _ in range(3)], tmp_path / "marks", seed)
    load.start()
    ended = threading.Event()

    def kill() -> None:
        while not ended.wait(4):
            platform.agents["a"].kill()
            platform.agent("a", wait=False)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        for number in range(30):
            found = platform.cli("verify", f"--store={platform.store_url}", "--output", "json")
            assert found.code == 0, found
            say(f"{number}: {found.json()['jobs']} jobs, revision {found.json()['revision']}")  # pyright: ignore[reportIndexIssue, reportUnknownArgumentType]
    finally:
        ended.set()
        killer.join()
    load.stop(100)
