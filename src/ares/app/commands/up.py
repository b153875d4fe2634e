"""`ares up` and `ares down`: the whole platform on one machine."""

import contextlib
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ares.app.commands.configured import configured, load
from ares.edge.cli.findings import Finding, of_nodes, of_server

if TYPE_CHECKING:
    from ares.edge.client.sync import Client

READY_WITHIN_S = 60.0
LOOK_EVERY_S = 0.1
# Jobs that `ares down` names one by one.
_NAMED_MAX = 10
# One sample job per installation, however often `ares up` is run.
SAMPLE_REQUEST_ID = "ares-up-sample"
SAMPLE = """\
import os
from ares import job

gpus = os.environ.get("CUDA_VISIBLE_DEVICES") or "none"
print(f"Hello from job {job.id}, attempt {job.attempt}, on {job.node}. GPUs given to it: {gpus}")
job.progress(1.0, "done")
job.result({"answer": 42})
"""


@click.command()
@click.option("--port", type=int, help="Port of the API.  [default: 8642]")
@click.option("--mock-gpu", metavar="PRESET", help="Mock GPUs: a number, or a preset such as dgx-a100.")
@click.option("--foreground", is_flag=True, help="Stay in this terminal until Ctrl-C.")
@click.option("--no-sample", is_flag=True, help="Do not run the sample job of the first start.")
@configured
def up(port: int | None, mock_gpu: str | None, foreground: bool, no_sample: bool, **where: Any) -> int:
    """Starts Ares on this machine.

    Server and agent go on in the background until `ares down`. The first start runs a sample job to
    its result. Without real GPUs there are mock ones. A second platform on one machine needs places of
    its own: `ares up --home DIR --port 8652 --set agents.port=8653`.
    """
    from ares.app import connection_file, up

    flags = {"http.port": port, "node.mock_gpu": mock_gpu}
    config, module = load(flags, **where), up
    if foreground:
        return module.supervise(config)
    started = None
    if not module.is_up(config.home_path):
        started = module.start_detached(config)
        click.echo(f"starting Ares, its state in {config.home}", err=True)
    else:
        given = frozenset({key for key, value in flags.items() if value is not None} | where["set"].keys())
        module.require_as_given(config, None if where["file"] else given)
        click.echo("already running", err=True)
    with _reach(module, config.home_path, started) as client:
        click.echo(f"Ares is up at {client.endpoint.shown}")
        click.echo(_dashboard(client))
        if grpc := connection_file.read(config.home_path).get("grpc"):
            click.echo(f"gRPC at {grpc}")
        for finding in _not_well(client):
            click.echo(f"{finding.status}: {finding.message}\n  fix: {finding.fix}", err=True)
        if not no_sample:
            _run_sample(client)
    click.echo(_next_steps(config.home_path))
    return 0


def _dashboard(client: "Client") -> str:
    """Where it is, with a link that logs in. A server of an earlier version makes none."""
    from ares.edge.client.errors import AresError

    try:
        return f"Dashboard, for one login within ten minutes: {client.endpoint.shown}{client.login_link().path}"
    except AresError:
        return f"Dashboard: {client.endpoint.shown}/ui/"


def _not_well(client: "Client") -> list[Finding]:
    """What is not real or not enforced here, as `ares doctor` says it."""
    from ares.edge.client.errors import AresError

    found = of_nodes(client.nodes())
    with contextlib.suppress(AresError):
        # A server that just began may still look for its leader; it serves all the same.
        found += of_server(client.readiness(), time.time())
    return [finding for finding in found if finding.status != "ok"]


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Do not ask, whatever runs.")
@configured
@click.pass_context
def down(ctx: click.Context, yes: bool, **where: Any) -> int:
    """Stops what `ares up` started. Its state is kept.

    It names the jobs that run and asks first. They are told to save their work and are run again after the next
    `ares up`. Where there is no terminal to ask at, it says so and goes on.
    """
    from ares.app import up

    config = load({}, **where)
    if not up.is_up(config.home_path):
        click.echo(f"nothing runs for {config.home}")
        return 0
    running = _running(up.connection(config.home_path))
    for line in running:
        click.echo(line, err=True)
    if running and not yes and sys.stdin.isatty() and not click.confirm("Stop Ares now?", err=True):
        click.echo("nothing was stopped")
        return 1
    click.echo("stopped" if up.stop(config.home_path) else f"nothing runs for {config.home}")
    return 0


def _running(found: "tuple[str, str] | None") -> list[str]:
    """The jobs that a stop would interrupt, in words; nothing when there are none, or when the server does not say."""
    from itertools import islice

    from ares.edge.cli.render.text import duration, printable
    from ares.edge.client.errors import AresError
    from ares.edge.client.retry import Retry
    from ares.edge.client.sync import Client

    if found is None:
        return []
    try:
        with Client(*found, retry=Retry(attempts=1), timeout_s=5.0) as client:
            total = sum(node.running for node in client.nodes())
            named = list(islice(client.list(phase=("STAGING", "RUNNING"), page=_NAMED_MAX), _NAMED_MAX))
    except AresError as error:
        return [f"what runs could not be asked: {error}"]
    if not total:
        return []
    now = time.time()
    shown = [f"  {job.id}  {printable(job.name)}, {duration(now - (job.started_at or now))}" for job in named]
    more = [f"  and {total - len(named)} more"] if total > len(named) else []
    head = f"{total} job{'s run' if total > 1 else ' runs'}, to be interrupted and run again after the next `ares up`:"
    return [head, *shown, *more]


def _reach(module: Any, home: Path, started: Any) -> "Client":
    """A client, once the server answers and its own machine is ready."""
    from ares.edge.client.errors import AresError
    from ares.edge.client.retry import Retry
    from ares.edge.client.sync import Client

    deadline = time.monotonic() + READY_WITHIN_S
    trouble = "it has not said where it listens"
    while time.monotonic() < deadline:
        if started is not None:
            started.require_alive()
        if found := module.connection(home):
            client = Client(*found, retry=Retry(attempts=1))
            try:
                if any(node.ready for node in client.nodes()):
                    return client
                trouble = "its agent has not registered"
            except AresError as error:
                trouble = str(error)
            client.close()
        time.sleep(LOOK_EVERY_S)
    failure = started.failure() if started is not None else None
    raise failure or module.UpError(
        f"Ares is not ready after {READY_WITHIN_S:g} s: {trouble}; see {home / module.LOG_FILE}"
    )


def _run_sample(client: "Client") -> None:
    from ares.edge.cli.commands.logs import copy_log
    from ares.edge.cli.commands.wait import ending
    from ares.edge.client.errors import Conflict
    from ares.edge.client.logs import LogWish

    gpus = min(1, max(node.gpus_free for node in client.nodes()))
    try:
        job = client.submit(
            command=[sys.executable, "-c", SAMPLE],
            name="hello",
            gpus=gpus,
            workdir="none",
            request_id=SAMPLE_REQUEST_ID,
        )
    except Conflict:
        # An earlier version's sample, or another number of GPUs: it ran before.
        return
    if job.replayed:
        return
    click.echo(f"running a sample job, {job.id}", err=True)
    copy_log(client, job.id, LogWish(follow=True))
    detail = client.wait(job, timeout=READY_WITHIN_S)
    value = None if detail.result is None else detail.result.value
    click.echo(f"its result: {value}" if detail.state.phase == "SUCCEEDED" else ending(detail))


def _next_steps(home: Path) -> str:
    from ares.edge.client.settings import home as default_home

    elsewhere = "" if home == default_home() else f"  export ARES_HOME={home}\n"
    # The virtual environment may not be on the path: show the command that works here.
    typed = f"{sys.executable} -m ares" if sys.argv[0].endswith("__main__.py") else sys.argv[0]
    command = typed if "/" in typed and shutil.which("ares") is None else "ares"
    return (
        f"\nTry next:\n{elsewhere}"
        f"  {command} submit --gpus 1 --name hello --follow -- sh -c 'echo $CUDA_VISIBLE_DEVICES'\n"
        f"  {command} jobs\n"
        f"  {command} nodes\n"
        f"  {command} ui\n"
        f"  {command} down"
    )
