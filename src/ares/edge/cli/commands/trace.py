"""`ares trace`: a job's way from submission to its end, as a waterfall."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect, find_job, job_argument, of_one_job
from ares.edge.cli.render.output import answer, output_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ares.api.telemetry.traces import JobTrace, TraceSpan

FILE = click.Path(dir_okay=False, path_type=Path)
_BAR = 40
# A gang's many ranks are told apart by --output json, or in a viewer.
_LINES_MAX = 200


@click.command()
@job_argument()
@click.option("--chrome", type=FILE, metavar="FILE", help="Write it for chrome://tracing or ui.perfetto.dev.")
@click.option("--otlp", type=FILE, metavar="FILE", help="Write it as OTLP's JSON, for OpenTelemetry collectors.")
@output_option("table", "json", "yaml")
@click.pass_context
def trace(ctx: click.Context, job: str, chrome: Path | None, otlp: Path | None, output: str) -> None:
    """Shows a job's way as a waterfall: queue, start, runs, end.

    It comes from the job's ledger: no collector is needed, and it is there while the job runs. A bar
    that ends in ">" still lasts. The ids of its spans are the ones that the job's own processes get in
    TRACEPARENT.
    """
    from ares.core.trace import forms
    from ares.edge.client.calls import predictions

    client = connect(ctx)
    job_id = find_job(client, job)
    if chrome is not None or otlp is not None:
        found = client.trace(job_id)
        for path, form in ((chrome, forms.chrome), (otlp, forms.otlp)):
            if path is not None:
                _write(path, found, form)
        return
    with of_one_job(client, job_id, "a trace"):
        shown = answer(client, predictions.trace(job_id), output)
    if shown is not None:
        for line in waterfall(shown):
            click.echo(line)


def _write(path: Path, trace: "JobTrace", form: "Callable[[JobTrace], dict[str, Any]]") -> None:
    import json

    path.write_text(json.dumps(form(trace)))
    click.echo(f"wrote {len(trace.spans)} spans to {path}")


def waterfall(trace: "JobTrace") -> "Iterable[str]":
    """A line for each span: when it began, how long it took, and where in the whole that lies."""
    from ares.edge.cli.render.text import printable

    began = min((span.began_at for span in trace.spans), default=trace.at)
    ended = max((trace.at if span.ended_at is None else span.ended_at for span in trace.spans), default=trace.at)
    whole = max(ended - began, 1e-9)
    yield f"{printable(trace.name)}  {trace.job}  {trace.phase}  trace {trace.trace_id}"
    for span in trace.spans[:_LINES_MAX]:
        until = trace.at if span.ended_at is None else span.ended_at
        first = min(int(_BAR * (span.began_at - began) / whole), _BAR - 1)
        last = max(first + 1, min(round(_BAR * (until - began) / whole), _BAR))
        bar = " " * first + ("=" * (last - first - 1) + ("=" if span.ended_at is not None else ">"))
        took = f"{_short(until - span.began_at)}{'' if span.ended_at is not None else '...'}"
        line = f"  {_named(span):<16}{'+' + _short(span.began_at - began):>10}{took:>12}  |{bar:<{_BAR}}|"
        yield f"{line}  {printable(_told(span))}".rstrip()
    left = len(trace.spans) - _LINES_MAX + trace.left_out
    if left > 0:
        yield f"  and {left:,} more: --output json has {len(trace.spans):,} of them"


def _named(span: "TraceSpan") -> str:
    if span.name == "program":
        from ares.edge.cli.render.text import printable

        return f"  {printable(span.label)[:24]}"
    if not span.attempt:
        return span.name
    return f"{span.name} {span.attempt}" + (f" rank {span.rank}" if span.rank else "")


def _told(span: "TraceSpan") -> str:
    failed = "FAILED " if span.status == "error" else ""
    where = str(span.attributes.get("node", "")) if span.name in ("start", "run") else ""
    return f"{failed}{' '.join(part for part in (where, span.message) if part)}"


def _short(seconds: float) -> str:
    from ares.edge.cli.render.text import duration

    if seconds < 1.0:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 60.0 else duration(seconds)
