"""`ares submit`."""

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.options import pairs_option, read_pairs
from ares.edge.cli.output import output_option, print_objects

if TYPE_CHECKING:
    from ares.edge.client.sync import Client

PRIORITIES = ("CRITICAL", "HIGH", "NORMAL", "LOW", "BEST_EFFORT")
EFFECTS = ("staged", "fenced", "idempotent", "unsafe")
RESTARTS = ("never", "on-failure", "always")
VERDICT_WITHIN_S = 0.3
VERDICT_EVERY_S = 0.05
# Flags that are keys of a job file under the same name.
_PLAIN = (
    "name", "cpus", "memory", "gpus", "priority", "time", "signal", "grace", "retries", "restart", "effects", "array",
    "labels", "selector", "lease",
)  # fmt: skip


def read_env(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """K=V, or K alone for the value it has here."""
    for value in values:
        if "=" not in value and value not in os.environ:
            raise click.BadParameter(f"{value} is not set here; write {value}=VALUE", ctx, param)
    return read_pairs(ctx, param, tuple(v if "=" in v else f"{v}={os.environ[v]}" for v in values))


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option(
    "-f", "--file", metavar="FILE", help="Job file in YAML, TOML or JSON; - reads it from stdin. Flags override it."
)
@click.option("--name", help="Name to show.  [default: job]")
@click.option("--gpus", type=int, help="GPUs.  [default: 0]")
@click.option("--gpu-model", help="Only this model, such as A100.")
@click.option("--cpus", metavar="N", help="CPUs: 2, 1.5 or 500m.  [default: 1]")
@click.option("--memory", "--mem", metavar="SIZE", help="Memory: 512M, 4G.  [default: 256M]")
@click.option("--time", metavar="TIME", help="Wall-time limit: 90s, 2h, 1d12h.")
@click.option("--signal", metavar="NAME@TIME", help="Signal sent that long before the time limit: USR1@60s.")
@click.option("--grace", metavar="TIME", help="Time between SIGTERM and SIGKILL.  [default: 30s]")
@click.option("--priority", type=click.Choice(PRIORITIES, case_sensitive=False), help="[default: NORMAL]")
@click.option("--retries", type=int, help="Retries after a failure.  [default: 3]")
@click.option("--restart", type=click.Choice(RESTARTS), help="When to run it again.  [default: on-failure]")
@click.option(
    "--effects",
    type=click.Choice(EFFECTS),
    help="What a second attempt would do to the outside world.  [default: staged]",
)
@click.option("--lease", metavar="TIME", help="How long its machine may be silent before the job moves.  [default: 9s]")
@click.option("--array", metavar="RANGE", help="One task per index: 0-9, 1,5,7-20 or 0-100:10.")
@click.option(
    "--env", "-e", multiple=True, metavar="K[=V]", callback=read_env, help="Environment variable; K alone copies yours."
)
@pairs_option("--label", help="Label to find it by.")
@pairs_option("--selector", help="Only on machines with this label.")
@click.option(
    "--chdir",
    "-C",
    type=click.Path(file_okay=False),
    help="Directory to start in, on the machine it runs on. Otherwise a private, empty one.",
)
@click.option("--request-id", metavar="ID", help="Submitting again under the same id gives the same job.")
@click.option("--wait", "wait_", is_flag=True, help="Wait for the end; exit as the job did.")
@click.option("--follow", is_flag=True, help="Print the job's output until its end; exit as the job did.")
@output_option("table", "json", "yaml", "name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def submit(ctx: click.Context, command: tuple[str, ...], wait_: bool, follow: bool, output: str, **flags: Any) -> None:
    """Submits a job.

    \b
      ares submit --gpus 2 --name train -- python train.py
      ares submit -f job.yaml --priority HIGH
      ares submit --array 0-9 --wait -- sh -c 'echo task $ARES_ARRAY_INDEX'

    With --wait or --follow the exit code is the job's own; see docs/cli.md for the codes of
    jobs that were cancelled, killed or never started. Ctrl-C leaves the job running.
    """
    from ares.edge.cli.jobfile import read_job_file
    from ares.edge.client.ask import spec_from

    layers = [read_job_file(flags["file"])] if flags["file"] else []
    spec = spec_from(*layers, asked_by_flags(command, flags))
    if follow and spec.array is not None:
        raise click.UsageError("an array has no single output to follow; use --wait, then ares logs ARRAY_INDEX", ctx)
    client = connect(ctx)
    if spec.workdir is None:
        _hint_private_directory(spec.command)
    from ares.edge.client import calls
    from ares.edge.client.http import new_request_id

    raw: Any = client.send(calls.submit(spec, flags["request_id"] or new_request_id()).raw())
    if not print_objects(output, raw, lambda answer: [answer["id"]]):
        # The job's own output must be alone on stdout.
        click.echo(_sentence(raw, spec.name), err=follow or wait_)
    if follow or wait_:
        ctx.exit(_stay(client, raw["id"], follow))
    if sys.stderr.isatty():
        _warn_of_waiting(client, raw["id"])
        click.echo(f"see it with: ares logs -f {raw['id']}", err=True)


def asked_by_flags(command: Sequence[str], flags: dict[str, Any]) -> dict[str, object]:
    """The flags that were given, as keys of a job file."""
    asked = {key: flags[key] for key in _PLAIN if flags.get(key) not in (None, {})}
    asked |= {"labels": flags["label"]} if flags["label"] else {}
    asked |= {"env": flags["env"]} if flags["env"] else {}
    asked |= {"gpuModel": flags["gpu_model"]} if flags["gpu_model"] else {}
    asked |= {"workdir": os.path.abspath(flags["chdir"])} if flags["chdir"] else {}
    asked |= {"command": list(command)} if command else {}
    return asked


def _sentence(answer: dict[str, Any], name: str) -> str:
    tasks = f" with {answer['tasks']} tasks" if answer.get("tasks", 1) > 1 else ""
    if answer.get("replayed"):
        return f"already submitted as {answer['id']} ({name}){tasks}: this request id was used before"
    return f"submitted {answer['id']} ({name}){tasks}"


def _hint_private_directory(command: Sequence[str]) -> None:
    local = next((arg for arg in command if not os.path.isabs(arg) and os.path.isfile(arg)), None)
    if local is not None:
        click.echo(
            f"hint: {local} is a file here, but jobs start in a private directory; add --chdir . to start in this one",
            err=True,
        )


def _warn_of_waiting(client: "Client", job_id: str) -> None:
    """Says so if it will not run by itself. The scheduler's answer takes a moment, often no more than this."""
    deadline = time.monotonic() + VERDICT_WITHIN_S
    while True:
        detail = client.get(job_id)
        if detail.waiting is not None or detail.state.phase != "PENDING" or time.monotonic() > deadline:
            break
        time.sleep(VERDICT_EVERY_S)
    if detail.waiting is not None and detail.waiting.remedy != "wait":
        from ares.edge.cli.rows import waits_for
        from ares.edge.cli.text import printable

        click.echo(f"warning: {printable(waits_for(detail.waiting))}", err=True)


def _stay(client: "Client", job_id: str, follow: bool) -> int:
    from ares.edge.cli.logs import copy_log
    from ares.edge.cli.wait import detachable, wait_for

    def watch() -> int:
        _warn_of_waiting(client, job_id)
        if follow:
            copy_log(client, job_id, follow=True)
        return wait_for(client, job_id, live=not follow)

    return detachable(job_id, watch)
