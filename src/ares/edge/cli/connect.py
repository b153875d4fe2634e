"""The client a command uses, the jobs its arguments name, and a change of each of them."""

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from ares.edge.client.brief import BriefClient, Sender
    from ares.edge.client.calls.calls import Call
    from ares.edge.client.sync import Client

# Crockford's base 32, and the index of an array task.
_FULL_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{16}(_\d+)?")
_BEGINNING = re.compile(r"[0-9a-z_]{1,32}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# No name is taken for an id, or the other way round, from here on.
_CLEAR_LENGTH = 6
_NAMED_MAX = 100
_SHOWN_MAX = 8
_COMPLETION_TIMEOUT_S = 0.7
# A person waits at the terminal: fail quickly when no server answers. A stream that has begun is more patient.
_PATIENT: dict[str, Any] = {"attempts": 60, "base_s": 0.25, "cap_s": 2.0}
_IMPATIENT: dict[str, Any] = {"attempts": 3, "base_s": 0.1, "cap_s": 0.5}
F = TypeVar("F", bound=Callable[..., Any])


def connect(ctx: click.Context, *, patient: bool = False) -> "Client":
    """A client for this command, closed when the command ends. `patient`: for a part of it that goes on for long, so
    that a server which was there may be away for a minute."""
    from ares.edge.client.retry import Retry
    from ares.edge.client.sync import Client

    client = Client(ctx.find_root().obj, retry=Retry(**(_PATIENT if patient else _IMPATIENT)), **_acting(ctx))
    ctx.call_on_close(client.close)
    return client


def connect_briefly(ctx: click.Context) -> "BriefClient":
    """The same for a command that scripts call often: it loads little."""
    from ares.edge.client.brief import BriefClient
    from ares.edge.client.retry import Retry

    client = BriefClient(ctx.find_root().obj, retry=Retry(**_IMPATIENT), **_acting(ctx))
    ctx.call_on_close(client.close)
    return client


class _Acting(TypedDict):
    tenant: str | None
    break_glass: str | None


def _acting(ctx: click.Context) -> _Acting:
    given = ctx.find_root().params
    return _Acting(tenant=given.get("tenant"), break_glass=given.get("break_glass"))


def find_job(client: "Sender", text: str) -> str:
    """The full id of a job given by the beginning of its id, or by a name that says which one is meant."""
    if _FULL_ID.fullmatch(text):
        return text
    from ares.edge.client.calls import calls
    from ares.edge.client.errors import AmbiguousJob, NotFound

    found = client.send(calls.resolve(text.lower())) if _BEGINNING.fullmatch(text.lower()) else ()
    # So short a text may well be both: what is steered must not be another job than the one that is meant.
    if not found or len(text) < _CLEAR_LENGTH:
        found = (*found, *(job for job in _called(client, text) if job not in found))
    if not found:
        what = f"no job's id begins with {text!r}, and none is called so"
        raise NotFound(what, code="not-found", fix="`ares jobs` lists the jobs")
    first, *others = found
    if others and text not in found:
        shown = ", ".join(found[:_SHOWN_MAX]) + (" and others" if len(found) > _SHOWN_MAX else "")
        raise AmbiguousJob(f"{text!r} fits {shown}")
    return text if others else first


def _called(client: "Sender", name: str) -> tuple[str, ...]:
    """Jobs and arrays of that name: those that have not ended, if there are any."""
    if not _NAME.fullmatch(name):
        return ()
    from ares.edge.client.calls import calls
    from ares.model.state import TERMINAL

    named = client.send(calls.jobs({"name": name, "arrays": "whole", "limit": _NAMED_MAX})).jobs
    live = [job for job in named if job.phase not in TERMINAL]
    return tuple((job.array or job.id) for job in live or named)


@contextmanager
def of_one_job(client: "Client", job_id: str, what: str) -> Generator[None]:
    """For what only single jobs have: says so where an array was named."""
    from ares.edge.client.errors import NotFound

    try:
        yield
    except NotFound as error:
        if "_" in job_id or client.get(job_id).array_counts is None:
            raise
        fix = f"name a task, such as {job_id}_0; `ares jobs --array {job_id}` lists them"
        raise NotFound(f"{job_id} is an array, and only its tasks have {what}", code=error.code, fix=fix) from error


def complete_job(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of the newest jobs that begin like this."""
    try:
        return [
            CompletionItem(state["id"], help=f"{state.get('name', '')} {state.get('phase', 'PENDING')}")
            for state in _newest(ctx)
            if state["id"].startswith(incomplete)
        ]
    except Exception:
        # A shell waits for this: no answer is better than an error in the prompt.
        return []


def _newest(ctx: click.Context) -> list[dict[str, Any]]:
    from ares.edge.client.calls import calls
    from ares.edge.client.retry import Retry
    from ares.edge.client.sync import Client

    root = ctx.find_root()
    tenant = root.params.get("tenant")
    with Client(root.obj, retry=Retry(attempts=1), timeout_s=_COMPLETION_TIMEOUT_S, tenant=tenant) as client:
        return client.send(calls.jobs({"limit": 50}).raw())["jobs"]


def job_argument(*, required: bool = True) -> Callable[[F], F]:
    """The argument JOB: an id or the beginning of one."""
    return click.argument("job", required=required, shell_complete=complete_job)


def jobs_argument(*, required: bool = True) -> Callable[[F], F]:
    """The argument JOB, one or several."""
    shown = "JOB..." if required else "[JOB...]"
    return click.argument("jobs", nargs=-1, required=required, metavar=shown, shell_complete=complete_job)


def change_each(client: "Client", ids: Iterable[str], call_of: "Callable[[str], Call[Any]]", output: str) -> int:
    """Changes each job by itself: a job that is refused does not keep the others. The exit code."""
    from ares.edge.cli.render.output import print_objects, report
    from ares.edge.cli.render.text import printable
    from ares.edge.client.errors import Conflict, Forbidden, InvalidRequest, NotFound, TooManyRequests

    code, states = 0, list[Any]()
    for job_id in ids:
        try:
            state: Any = client.send(call_of(job_id).raw())
        except (Conflict, Forbidden, InvalidRequest, NotFound, TooManyRequests) as error:
            code = report(f"{job_id}: {error}", error.fix, 1)
            continue
        states.append(state)
        if output == "table":
            click.echo(f"{state['id']} ({printable(state['name'])}) {state.get('phase', 'PENDING')}")
    print_objects(output, {"jobs": states}, lambda answer: [job["id"] for job in answer["jobs"]])
    return code
