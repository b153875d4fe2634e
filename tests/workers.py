"""Workers of a run (`-n`): forks of the process that collected the tests, each given a group when it has done with one.

To import and collect all tests costs twenty seconds of CPU time, which workers that begin by themselves spend each. The
process that collected starts no thread and opens no connection before it forks, and runs no test itself.
"""

import os
import signal
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NoReturn

import pytest
from _pytest.capture import CaptureManager
from _pytest.config import create_terminal_writer
from _pytest.tmpdir import TempPathFactory
from hypothesis.internal.conjecture import providers

from tests import warm
from tests.running import Queue, groups_of
from tests.servers import die_with_parent

# How long a worker may take to end what it set up.
_PATIENCE_S = 10.0
_POLL_S = 0.05
# Where most tests start programs of ours.
_WITH_PROGRAMS = ("tests/chaos/", "tests/e2e/", "tests/security/", "tests/integration/")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("workers", "workers beside each other")
    # Plugins have long options; this one is where people look for it.
    group._addoption("-n", dest="workers", type=int, default=0, metavar="COUNT", help="run tests in COUNT processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> object:
    """All tests, by workers; None where pytest runs them itself, one by one."""
    count = session.config.option.workers
    if not count or session.config.option.collectonly or session.testsfailed:
        return None
    _Run(session, min(count, max(len(session.items), 1))).finish()
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True


class _Worker:
    """A fork, as the process that gives tests out sees it."""

    def __init__(self, number: int, pid: int, ends: Connection, todo: Sequence[int]) -> None:
        self.number = number
        self.pid = pid
        self.ends = ends
        # What it was given and has not ended, the test that it runs first.
        self.todo = deque(todo)


class _Run:
    """Gives tests out, and passes on what workers say of them as if they had run here."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        self._session = session
        self._hook = session.config.hook
        self._queue = Queue(groups_of(session.items), count)
        self._workers: dict[Connection, _Worker] = {}
        self._count = count
        # Each worker's folder lies in this one.
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            # Tests of several files end side by side: no line is one file's.
            reporter.showfspath = False
        # What each worker would do for itself.
        providers._get_local_constants()
        if any(item.nodeid.startswith(_WITH_PROGRAMS) for item in session.items):
            warm.first()

    def finish(self) -> None:
        try:
            for number in range(self._count):
                self._begin(number, self._queue.next_for(number))
            while self._workers and not (self._session.shouldfail or self._session.shouldstop):
                for ends in wait(list(self._workers)):
                    assert isinstance(ends, Connection)
                    self._hear(self._workers[ends])
        finally:
            self._dismiss()

    def _dismiss(self) -> None:
        """Workers that are left are interrupted, so that they end what they started, or ended."""
        for worker in self._workers.values():
            worker.ends.close()
            os.kill(worker.pid, signal.SIGINT)
        patience = time.monotonic() + _PATIENCE_S
        for worker in self._workers.values():
            while not os.waitpid(worker.pid, os.WNOHANG)[0]:
                if time.monotonic() > patience:
                    os.kill(worker.pid, signal.SIGKILL)
                time.sleep(_POLL_S)

    def _begin(self, number: int, todo: Sequence[int]) -> None:
        if not todo:
            return
        ours, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        if (pid := os.fork()) == 0:
            # Others' ends are not this worker's: a worker notices by its own that it was left.
            for worker in self._workers.values():
                worker.ends.close()
            ours.close()
            _work_and_end(self._session, theirs, number, todo)
        theirs.close()
        self._workers[ours] = _Worker(number, pid, ours, todo)

    def _hear(self, worker: _Worker) -> None:
        try:
            said, value = worker.ends.recv()
        except (EOFError, ConnectionResetError):
            self._ended(worker)
            return
        if said == "more":
            given = self._queue.next_for(worker.number)
            worker.todo.extend(given)
            worker.ends.send(given)
        elif said == "start":
            item = self._session.items[value]
            self._hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        elif said == "finish":
            worker.todo.remove(value)
            item = self._session.items[value]
            self._hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        elif said == "report":
            report = self._hook.pytest_report_from_serializable(config=self._session.config, data=value)
            self._hook.pytest_runtest_logreport(report=report)
        elif said == "warning":
            self._hook.pytest_warning_recorded.call_historic(kwargs=value)
        else:
            raise RuntimeError(f"worker {worker.number} broke:\n{value}")

    def _ended(self, worker: _Worker) -> None:
        """By itself when it has nothing left; otherwise the test that it ran failed, and another takes the rest."""
        del self._workers[worker.ends]
        worker.ends.close()
        code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if not worker.todo:
            return
        item = self._session.items[worker.todo.popleft()]
        report = pytest.TestReport(
            item.nodeid,
            item.location,
            {},
            "failed",
            f"worker {worker.number} ended with {code} in {item.nodeid}",
            "call",
        )
        self._hook.pytest_runtest_logreport(report=report)
        self._begin(worker.number, worker.todo or self._queue.next_for(worker.number))


# ---- in a worker


class _Terminal:
    """In the place of the reporter, which writes what the other process was told; some plugins ask for its writer."""

    def __init__(self, config: pytest.Config) -> None:
        self._tw = create_terminal_writer(config, sys.stderr)


class _Teller:
    """Says what happens to tests."""

    def __init__(self, config: pytest.Config, ends: Connection) -> None:
        self._config = config
        self._ends = ends

    def say(self, what: str, value: object) -> None:
        self._ends.send((what, value))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.say("report", self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: tuple[str, int, str] | None
    ) -> None:
        # Its own class may not be one that another process can read.
        plain = warnings.WarningMessage(
            str(warning_message.message), UserWarning, warning_message.filename, warning_message.lineno
        )
        self.say("warning", {"warning_message": plain, "when": when, "nodeid": nodeid, "location": location})


def _work_and_end(session: pytest.Session, ends: Connection, number: int, todo: Sequence[int]) -> NoReturn:
    die_with_parent()
    teller = _Teller(session.config, ends)
    try:
        _make_own(session.config, teller, number)
        for item, following, index in _turns(session, ends, todo):
            teller.say("start", index)
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            teller.say("finish", index)
    except (KeyboardInterrupt, EOFError, BrokenPipeError):
        # Interrupted, perhaps by a person and by the process that gives tests out, or that is gone.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        session._setupstate.teardown_exact(None)
    except BaseException:
        teller.say("broken", traceback.format_exc())
    sys.stdout.flush()
    sys.stderr.flush()
    # What was imported is not taken apart: that would copy all its pages.
    os._exit(0)


def _turns(
    session: pytest.Session, ends: Connection, given: Sequence[int]
) -> Iterator[tuple[pytest.Item, pytest.Item | None, int]]:
    """Each test with the one after it, for which what both share is kept: more is asked for ahead of the last."""
    todo = deque(given)
    while todo:
        index = todo.popleft()
        if not todo:
            ends.send(("more", None))
            todo.extend(ends.recv())
        yield session.items[index], session.items[todo[0]] if todo else None, index


def _make_own(config: pytest.Config, teller: _Teller, number: int) -> None:
    """What must not be shared with other workers: the terminal, captured output, the temporary folder."""
    plugins = config.pluginmanager
    reporter: Any = plugins.get_plugin("terminalreporter")
    if reporter is not None:
        plugins.unregister(reporter)
        plugins.register(_Terminal(config), "terminalreporter")
    plugins.register(teller, "teller")
    capturing = plugins.get_plugin("capturemanager")
    if isinstance(capturing, CaptureManager):
        capturing.stop_global_capturing()
        capturing.start_global_capturing()
        capturing.suspend_global_capture()
    factory: TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    own = factory.getbasetemp() / f"w{number}"
    own.mkdir(mode=0o700, exist_ok=True)
    factory._basetemp = own
