"""The end of a job is told to a channel: at least once, with one id, and only where it was asked for."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.platform import Platform, eventually


class Receiver(ThreadingHTTPServer):
    """Refuses the first notice of each id as if it were overloaded, and takes it when it comes again."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.refused: set[str] = set()
        self.taken: list[tuple[str, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        receiver = self.server
        assert isinstance(receiver, Receiver)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        delivery = self.headers["X-Ares-Delivery"]
        first = delivery not in receiver.refused
        receiver.refused.add(delivery)
        if not first:
            receiver.taken.append((delivery, body))
        self.send_response(503 if first else 204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_ends_are_told_as_they_were_asked_for(platform: Platform, receiver: Receiver) -> None:
    server = platform.server(env={"ARES_ALERTS__ALLOW_PRIVATE": "127.0.0.1"})
    platform.agent("node-a")
    made = platform.cli("channel", "set", "ops", "--webhook", "-", text=receiver.url)
    assert made.code == 0, made
    flags = ("--wait", "--retries", "0")
    well = platform.cli("submit", *flags, "--notify", "ops:fail", "--name", "well", "--", "true")
    plain = platform.cli("submit", *flags, "--name", "plain", "--", "false")
    failed = platform.cli(
        "submit", *flags, "--notify", "ops", "--notify", "ops:fail", "--name", "bad", "--", "sh", "-c", "exit 3"
    )
    assert (well.code, plain.code, failed.code) == (0, 1, 3), (well, plain, failed)
    job = platform.cli("jobs", "--name", "bad", "-o", "name").out.strip()
    # Refused once: the leader tries again, also one that begins in between.
    eventually(lambda: f"{job}-1" in receiver.refused, "the first try")
    server.kill()
    platform.server(env={})
    eventually(lambda: receiver.taken, "the notice's arrival")
    (delivery, body), *more = receiver.taken
    assert (delivery, more) == (f"{job}-1", [])
    assert f"job bad ({job}) FAILED with exit code 3" in body["text"]
    assert receiver.refused == {f"{job}-1"}, "nothing else was told"
    assert "Notify      ops, ops:fail" in platform.cli("show", job).out


def test_what_cannot_be_told_is_refused_with_the_way_to_it(shared: Platform) -> None:
    unknown = shared.cli("submit", "--notify", "nowhere", "--", "true")
    assert (unknown.code, "no channel 'nowhere'" in unknown.err, "ares channel list" in unknown.err) == (1, True, True)
    array = shared.cli("submit", "--notify", "nowhere", "--array", "0-9", "--", "true")
    assert (array.code, "ares wait" in array.err) == (1, True), array
    bad = shared.cli("submit", "--notify", "ops:sometimes", "--", "true")
    assert bad.code != 0, bad


def test_a_command_runs_when_jobs_have_ended(shared: Platform) -> None:
    job = shared.cli("submit", "--retries", "0", "--", "sh", "-c", "exit 3").out.split()[1]
    done = shared.cli("wait", job, "--then", 'echo "$ARES_JOBS $ARES_PHASES $ARES_EXIT_CODE"')
    assert (done.code, done.out) == (3, f"{job} FAILED 3\n"), done
    wrong = shared.cli("wait", job, "--then", "exit 7")
    assert (wrong.code, "ended with 7" in wrong.err) == (3, True), wrong
