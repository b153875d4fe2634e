"""The audit chain of real servers: killed, tampered with, and several at once."""

import json
import threading
from pathlib import Path

import pytest

from ares.adapters.audit.files import FileAudit
from ares.app import connection_file
from ares.app.audit import check_all
from ares.app.config import load
from ares.core.audit.chain import entry_of
from ares.edge.client.errors import AresError
from ares.edge.client.retry import Retry
from ares.model.audit import AuditEntry
from ares.model.job import JobSpec
from tests.platform import Platform, eventually

JOB = JobSpec(command=("true",))
WRITERS = 8
# Acknowledged before the server is killed.
ENOUGH = 60


def recorded(home: Path, chain: str) -> list[AuditEntry]:
    files = FileAudit(home / "audit", chain)
    lines = [line for segment in files.segments(chain) for line in files.lines(segment)]
    found = [entry_of(line) for line in lines]
    assert None not in found
    return [entry for entry in found if entry is not None]


def hammer(platform: Platform) -> list[str]:
    """Submits from many threads until the server is killed in the midst of it; what was acknowledged."""
    acknowledged: list[str] = []
    enough = threading.Event()

    def submit() -> None:
        client = platform.client(0, retry=Retry(attempts=1))
        while True:
            try:
                acknowledged.append(client.submit(JOB).id)
            except AresError:
                return
            if len(acknowledged) >= ENOUGH:
                enough.set()

    threads = [threading.Thread(target=submit) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    assert enough.wait(60)
    platform.servers[0].kill()
    for thread in threads:
        thread.join(60)
    return acknowledged


def test_what_was_acknowledged_before_a_kill_is_recorded_and_the_chain_goes_on(platform: Platform) -> None:
    server = platform.server()
    acknowledged = hammer(platform)
    made = {name for entry in recorded(server.home, "replica-0") for name in entry.made}
    assert {f"jobs/{job}" for job in acknowledged} <= made
    # As if the last write had been cut short by the end of power.
    newest = sorted((server.home / "audit" / "replica-0").glob("*.jsonl"))[-1]
    with newest.open("ab") as file:
        file.write(b'{"seq":99999,"prev":"')
    platform.server()
    platform.client(0).submit(JOB)
    assert server.terminate() == 0
    operations = [entry.operation for entry in recorded(server.home, "replica-0")]
    assert operations.count("auditTorn") == 1
    assert operations[-1] == "submitJob"
    verified = platform.cli("audit", "verify", "--set", "replica=replica-0", "--output", "json")
    assert verified.code == 0, verified
    (state,) = json.loads(verified.out)["verified"]
    assert (state["broken"], state["signed"]) == (0, state["ends"])
    bend(server.home, newest)
    verified = platform.cli("audit", "verify", "--set", "replica=replica-0")
    assert verified.code == 1
    assert "BROKEN at entry 1: the chain ends before it, but a signed head names entry" in verified.out
    assert "entries are missing; no entry holds" in verified.out


def bend(home: Path, segment: Path) -> None:
    """N41: what is done to the files is found, where it begins. In the end nothing is left of them."""
    config = load(None, {"replica": "replica-0"}, {"ARES_HOME": str(home)})
    lines = segment.read_bytes().splitlines(keepends=True)
    bent = {
        "changed": ([*lines[:4], lines[4].replace(b"ALLOW", b"DENY_"), *lines[5:]], 5, 0),
        "deleted": ([*lines[:7], *lines[9:]], 8, 2),
        "moved": ([*lines[:2], lines[3], lines[2], *lines[4:]], 3, 1),
    }
    for name, (kept, entry, missing) in bent.items():
        segment.write_bytes(b"".join(kept))
        ((found,), _) = check_all(config, None, None, lambda done, total: None)
        assert (found.broken, found.missing) == (entry, missing), name
    for path in segment.parent.glob("*.jsonl"):
        path.unlink()


@pytest.mark.soak
@pytest.mark.etcd
def test_each_replica_has_a_chain_and_the_command_line_asks_them_all(tmp_path: Path) -> None:
    with Platform(tmp_path, "etcd", warm=True) as platform:
        for number in (0, 1):
            platform.server(number)
        jobs = [platform.client(number).submit(JOB).id for number in (0, 1)]
        both = ",".join(server.url for server in platform.servers.values())
        person = tmp_path / "person"
        person.mkdir(mode=0o700)
        connection_file.write(person, url=both, token=platform.admin_token)
        search = ("audit", "search", "--operation", "submitJob", "-o", "json")
        found = json.loads(platform.cli(*search, home=person).out)
        assert {entry["made"][0] for entry in found["entries"]} == {f"jobs/{job}" for job in jobs}
        assert {entry["chain"] for entry in found["entries"]} == {"replica-0", "replica-1"}
        exported = platform.cli("audit", "export", "--format", "csv", home=person)
        assert exported.out.count("at,chain,seq") == 1
        platform.servers[1].terminate()
        eventually(lambda: "replica-1" in platform.cli("audit", "heads").out, "the head of a server that stopped")
        one = platform.cli("audit", "search")
        assert "not asked: replica-1" in one.err
        where = ("--set", "replica=replica-0", "--set", f"store.url={platform.store_url}")
        verified = platform.cli("audit", "verify", *where)
        assert verified.code == 0, verified
        assert "replica-1: not on this machine" in verified.err
