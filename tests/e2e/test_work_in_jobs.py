"""Working in jobs, by the command line as processes: copies, ports, shells, Jupyter, and what jobs use."""

import hashlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import msgspec
import pytest

from ares.api.job_sessions import LiveUse, RankUse
from tests.e2e.test_sessions import running
from tests.platform import Platform, environment, eventually
from tests.ports import free_ports
from tests.terminal import Terminal

ECHO = """\
import socket, sys, threading
def echo(taken):
    while data := taken.recv(65536):
        taken.sendall(data.upper())
    taken.close()
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
while True:
    threading.Thread(target=echo, args=(server.accept()[0],)).start()
"""

# Stands in for Jupyter: a server, and what `jupyter server list --json` says of it.
JUPYTER = f"""#!{sys.executable}
import http.server, json, os, sys
note = os.path.join(os.environ["ARES_WORKDIR"], "server.json")
if sys.argv[1:3] == ["server", "list"]:
    print(open(note).read() if os.path.exists(note) else "")
    raise SystemExit
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"notebook " + self.path.encode())
server = http.server.HTTPServer(("127.0.0.1", 0), Page)
open(note + ".new", "w").write(json.dumps({{"port": server.server_address[1], "token": "s3", "base_url": "/"}}))
os.replace(note + ".new", note)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def job(shared: Platform) -> str:
    return running(shared)


def test_directories_go_in_and_come_back_the_same(shared: Platform, job: str, tmp_path: Path) -> None:
    here = tmp_path / "data"
    (here / "deep" / "deeper").mkdir(parents=True)
    (here / "large").write_bytes(os.urandom(3_000_000))
    (here / "deep" / "tool.sh").write_text("#!/bin/sh\necho run\n")
    (here / "deep" / "tool.sh").chmod(0o755)
    (here / "deep" / "deeper" / "empty").touch()
    (here / "link").symlink_to("deep/tool.sh")
    (here / "out").symlink_to("/etc/passwd")
    os.mkfifo(here / "pipe")
    gone_in = shared.cli("cp", str(here), f"{job}:copy")
    assert gone_in.code == 0, gone_in
    assert set(gone_in.err.split("\n")) == {"left out: out", "left out: pipe", ""}
    assert shared.cli("exec", job, "--", "sh", "-c", "./copy/link; ls copy").out == "run\ndeep\nlarge\nlink\n"
    back = shared.cli("cp", f"{job}:copy", str(tmp_path / "back"))
    assert back.code == 0, back
    assert _digests(tmp_path / "back") == {**_digests(here)}
    assert os.readlink(tmp_path / "back" / "link") == "deep/tool.sh"
    # Into a directory that is there, under its own name.
    assert shared.cli("cp", f"{job}:copy/large", str(tmp_path)).code == 0
    assert (tmp_path / "large").read_bytes() == (here / "large").read_bytes()


def _digests(folder: Path) -> dict[str, tuple[str, int]]:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mode & 0o777)
        for path in files
    }


def test_copies_that_cannot_be_say_why(shared: Platform, job: str, tmp_path: Path) -> None:
    assert "No such file" in shared.cli("cp", f"{job}:nothing", str(tmp_path / "x")).err
    assert shared.cli("cp", str(tmp_path / "nothing"), f"{job}:").code == 2
    assert shared.cli("cp", "a", "b").code == 2
    (tmp_path / "file").write_text("x")
    refused = shared.cli("cp", str(tmp_path / "file"), f"{job}:/etc/cannot")
    assert refused.code == 1, refused
    assert not (tmp_path / "x").exists()


def test_port_of_the_job_is_reached_and_the_agents_is_not(shared: Platform, tmp_path: Path) -> None:
    remote, local, second = free_ports(3)
    served = running(shared, sys.executable, "-c", ECHO, str(remote))
    eventually(lambda: shared.cli("logs", served).out == "up\n", "the server in the job")
    agents = int(shared.servers[0].agents.rpartition(":")[2])
    command = [sys.executable, "-m", "ares", "port-forward", served, f"{local}:{remote}", f"{second}:{agents}"]
    forward = subprocess.Popen(
        command, env=environment(shared.servers[0].home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert forward.stdout is not None
        assert forward.stderr is not None
        assert f"127.0.0.1:{local} to port {remote}" in forward.stdout.readline()
        assert str(agents) in forward.stdout.readline()
        with (
            socket.create_connection(("127.0.0.1", local), 30) as one,
            socket.create_connection(("127.0.0.1", local), 30) as _,
        ):
            payload = b"abc" * 200_000
            one.sendall(b"hello")
            assert _received(one, 5) == b"HELLO"
            # More than any buffer on the way, in both directions at once.
            pid = os.fork()
            if pid == 0:
                one.sendall(payload)
                os._exit(0)
            assert _received(one, len(payload)) == payload.upper()
            os.waitpid(pid, 0)
        with socket.create_connection(("127.0.0.1", second), 30) as refused:
            assert refused.recv(100) == b""
        assert "belongs to another program" in forward.stderr.readline()
    finally:
        forward.send_signal(signal.SIGINT)
        assert forward.wait(30) in (0, 130)
        forward.communicate()
    shared.cli("cancel", served)


def _received(sock: socket.socket, size: int) -> bytes:
    sock.settimeout(60)
    found = b""
    while len(found) < size:
        data = sock.recv(1 << 20)
        assert data, f"ended after {len(found)} bytes"
        found += data
    return found


def test_shell_is_a_job_that_ends_with_it(shared: Platform) -> None:
    home = shared.servers[0].home
    with Terminal(["shell", "--workdir", "none", "--cpus", "100m", "--name", "mine", "--", "sh"], home) as terminal:
        job = terminal.until(" (mine)").rpartition("submitted ")[2]
        terminal.type("echo in $ARES_JOB_ID\r")
        terminal.until(f"in {job}")
        terminal.type("exit 4\r")
        assert terminal.end() == 4
    detail = shared.client().wait(job, 60)
    assert (detail.state.phase, detail.state.exit and detail.state.exit.code) == ("FAILED", 4)


def test_shell_that_was_left_is_attached_to_and_ends_when_idle(shared: Platform) -> None:
    home = shared.servers[0].home
    with Terminal(["shell", "--workdir", "none", "--cpus", "100m", "--idle", "15s", "--", "sh"], home) as terminal:
        job = terminal.until(" (shell)").rpartition("submitted ")[2]
        terminal.type("echo he'llo'\r")
        terminal.until("hello")
        terminal.type("\x10\x11")
        terminal.until(f"ares attach {job}")
        assert terminal.end() == 0
    with Terminal(["attach", job], home) as terminal:
        terminal.until("hello")
        # Nothing is typed: the shell and its job end.
        assert terminal.end() == 255
    assert shared.client().wait(job, 60).state.phase == "FAILED"


def test_shell_says_what_it_waits_for(shared: Platform) -> None:
    with Terminal(["shell", "--workdir", "none", "--gpus", "9"], shared.servers[0].home) as terminal:
        job = terminal.until(" (shell)").rpartition("submitted ")[2]
        terminal.until("waiting: ")
        terminal.type("\x03")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until(f"cancelled {job}")
    assert shared.client().get(job).state.phase == "CANCELLED"


def test_jupyter_is_reached_by_the_address_it_prints(platform: Platform) -> None:
    (port,) = free_ports(1)
    home = platform.server().home
    platform.agent("node-a")
    tools = platform.directory / "tools"
    tools.mkdir(mode=0o755)
    (tools / "jupyter").write_text(JUPYTER)
    (tools / "jupyter").chmod(0o755)
    none = platform.cli("jupyter", "--workdir", "none", "--cpus", "100m", "--env", "PATH=/usr/bin:/bin")
    assert none.code == 1, none
    assert "ares logs" in none.err
    command = [sys.executable, "-m", "ares", "jupyter", "--workdir", "none", "--cpus", "100m", "--port", str(port)]
    command += ["--env", f"PATH={tools}:/usr/bin:/bin"]
    served = subprocess.Popen(command, env=environment(home), stdout=subprocess.PIPE, text=True)
    try:
        assert served.stdout is not None
        address = served.stdout.readline().strip()
        assert address == f"http://127.0.0.1:{port}/?token=s3"
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert answer.read() == b"notebook /?token=s3"
    finally:
        served.send_signal(signal.SIGINT)
        assert served.wait(30) == 0
        served.communicate()
    jobs = list(platform.client().list(name="jupyter"))
    assert [job.phase for job in jobs] == ["CANCELLED", "FAILED"]


def test_top_and_show_tell_what_a_job_uses(shared: Platform) -> None:
    script = "import time\nheld = bytearray(60_000_000)\nwhile True: sum(range(10000))"
    busy = running(shared, sys.executable, "-c", script, flags=("--name", "busy"))

    def used() -> RankUse | None:
        seen = msgspec.json.decode(shared.cli("top", "--output", "json").out, type=LiveUse)
        mine = [use for use in seen.ranks if use.job == busy]
        return mine[0] if mine and mine[0].memory_bytes > 60_000_000 and mine[0].cpus > 0.01 else None

    found = eventually(used, "a job that uses CPU and memory")
    assert (found.node, found.name, found.processes) == ("node-a", "busy", 1)
    assert busy in shared.cli("top").out
    assert "node-a" in shared.cli("top", "--by", "node", "--once").out
    assert "Uses now" in shared.cli("show", busy).out
    shared.cli("cancel", busy)


FAMILY = """\
import os, subprocess, sys
from ares import job
if len(sys.argv) > 1:
    print("part", sys.argv[1], "of", open("note.txt").read().strip())
    raise SystemExit
first = job.submit([sys.executable, "family.py", "1"], name="part", memory="64M")
command = [sys.executable, "family.py", "2"]
again = [sys.executable, "-m", "ares", "submit", "-o", "name", "--memory", "64M", "--", *command]
second = subprocess.run(again, check=True, capture_output=True, text=True).stdout.strip()
try:
    job.submit(["true"])
except job.SubmitRefused as no:
    job.result([first, second, no.code])
"""


def test_a_job_submits_jobs_without_a_credential_or_a_network(shared: Platform, tmp_path: Path) -> None:
    (tmp_path / "family.py").write_text(FAMILY)
    (tmp_path / "note.txt").write_text("the project")
    asked = ("submit", "--workdir", str(tmp_path), "--children", "2", "--network", "none", "--wait", "-o", "name")
    ran = shared.cli(*asked, "--", sys.executable, "family.py")
    assert ran.code == 0, ran
    job = ran.out.split()[0]
    detail = shared.client().wait(job, 60)
    assert detail.result is not None
    first, second, refused = detail.result.value
    assert refused == "not-allowed"
    for number, child in enumerate((first, second), start=1):
        shared.client().wait(child, 60)
        assert shared.cli("logs", child).out == f"part {number} of the project\n"
        assert f"Child of    {job}, by its call {number}" in shared.cli("show", child).out
    assert "Children    2 of 2: 2 SUCCEEDED; the newest are part" in shared.cli("show", job).out
