"""What a session in a job reaches by a port: what that job listens on, and nothing else of its machine. Real processes,
and the wire itself rather than the command line, which might refuse by kindness."""

import secrets
import sys
from pathlib import Path

import pytest

from ares.edge.client.calls import job_sessions as calls
from ares.edge.client.errors import ApiError
from ares.edge.client.sync import Client
from ares.model.job_session import SessionSpec, SessionView
from tests.platform import Platform, eventually
from tests.ports import free_ports

LISTEN = """\
import socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
while True:
    time.sleep(60)
"""


def listening(client: Client, port: int) -> str:
    job = client.submit(command=[sys.executable, "-c", LISTEN, str(port)], cpus=0.1, memory="64M").id
    eventually(lambda: client.get(job).state.phase == "RUNNING", "the start of the job")
    eventually(lambda: b"up" in b"".join(client.logs(job)), "the listener in the job")
    return job


def forwarded(client: Client, job: str, port: int) -> SessionView:
    return client.send(calls.open_session(job, SessionSpec(kind="forward", port=port), secrets.token_hex(16)))


def test_ports_of_the_agent_the_server_and_other_jobs_are_refused(tmp_path: Path) -> None:
    own, others, peers = free_ports(3)
    with Platform(tmp_path, warm=True) as platform:
        server = platform.server()
        platform.agent("node-a", flags=[f"--set=node.transfer.peer_port={peers}"])
        admin = platform.client()
        admin.create_tenant("foreign")
        with Client(server.url, admin.create_token(role="submitter", tenant="foreign").token) as foreign:
            mine, theirs = listening(admin, own), listening(foreign, others)
            targets = {
                "the agent's own": peers,
                "the server's, for people": int(server.url.rpartition(":")[2]),
                "the server's, for agents": int(server.agents.rpartition(":")[2]),
                "that of another tenant's job on the same machine": others,
            }
            for whose, port in targets.items():
                with pytest.raises(ApiError) as refused:
                    forwarded(admin, mine, port)
                assert f"port {port} belongs to another program of this machine" in str(refused.value), whose
            assert forwarded(admin, mine, own).port == own
            assert forwarded(foreign, theirs, others).port == others
        # Every try is on record, also those that were refused.
        entries = list(admin.audit(operation="openSession"))
        assert len(entries) == len(targets) + 2, entries
