"""A session as the executor is asked for it: in the environment, directory and user of the attempt."""

import sys
from functools import cache
from math import inf
from pathlib import Path

from ares import archive
from ares.agent.attempts.attempt import Attempt
from ares.agent.attempts.launch import launch_of
from ares.agent.settings import AgentSettings
from ares.model.entry.job_session import SessionSpec
from ares.model.node import NodeInfo
from ares.ports.executor import Entry


def entry_of(attempt: Attempt, spec: SessionSpec, info: NodeInfo, settings: AgentSettings) -> Entry:
    if spec.kind == "forward":
        return Entry(port=spec.port)
    launch = launch_of(attempt.start, attempt.folder, info, settings, inf)
    if attempt.cover is not None:
        launch = attempt.cover.dress(launch)
    if attempt.image is not None:
        launch = attempt.image.dress(launch, attempt.start.spec)
    env = dict(launch.env) if attempt.python is None else attempt.python.activate(launch.env)
    if spec.term:
        env["TERM"] = spec.term
    copies = spec.kind != "exec"
    # An image may have no Python, or another than the node's.
    script = _script() if copies and attempt.image is not None else ""
    return Entry(
        argv=_copied(spec) if script else _copying(spec) if copies else spec.command,
        script=script,
        env=env,
        cwd=launch.cwd,
        tty=spec.tty,
        rows=spec.rows,
        cols=spec.cols,
    )


def _copying(spec: SessionSpec) -> list[str]:
    """A program of ours as a command of the job, with the job's rights and no others."""
    return [sys.executable, "-I", "-S", "-c", _script(), *_copied(spec)]


def _copied(spec: SessionSpec) -> list[str]:
    return ["out" if spec.kind == "copy-out" else "in", spec.path]


@cache
def _script() -> str:
    # As text: the job need not see the files of this package.
    return Path(archive.__file__).read_text()
