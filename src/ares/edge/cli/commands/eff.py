"""`ares eff`: asked against used."""

from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect, find_job, jobs_argument
from ares.edge.cli.render.output import output_option, print_objects
from ares.edge.cli.render.text import duration, memory

if TYPE_CHECKING:
    from ares.edge.client.efficiency import Efficiency
    from ares.edge.client.sync import Client

# Tasks of an array that are looked at.
TASKS_MAX = 10_000


@click.command()
@jobs_argument()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def eff(ctx: click.Context, jobs: tuple[str, ...], output: str) -> None:
    """Shows what jobs asked for and what they used, with advice.

    CPU, peak memory and time are those of the last attempt, as it reported them at its end; of an array, of all its
    tasks together. What was not measured is said to be unknown.
    """
    import msgspec

    client = connect(ctx)
    found = [_efficiency(client, find_job(client, job)) for job in jobs]
    answer = {"jobs": [msgspec.to_builtins(job) for job in found]}
    if not print_objects(output, answer, lambda value: [job["job"] for job in value["jobs"]]):
        click.echo("\n\n".join("\n".join(lines(job)) for job in found))


def _efficiency(client: "Client", job_id: str) -> "Efficiency":
    from itertools import islice

    from ares.edge.client.efficiency import efficiency

    detail = client.get(job_id)
    if detail.array_counts is None:
        return efficiency(detail.spec, detail.state, (detail.state,))
    tasks = tuple(islice(client.list(array=job_id, sort="submitted", page=1000), TASKS_MAX))
    return efficiency(detail.spec, detail.state, tasks)


def lines(job: "Efficiency") -> list[str]:
    """For people."""
    from ares.edge.cli.render.table import layout
    from ares.edge.cli.render.text import printable

    of = f", {job.measured} of {job.tasks} tasks ended" if job.tasks > 1 else ""
    peak = "" if job.memory.used_mib is None else f"{job.memory.used_mib}Mi"
    if job.tasks > 1 and peak:
        peak += f" at most, {job.memory.median_mib}Mi in the median"
    rows = [
        ("CPU", f"{job.cpu.asked:g}", _or_unknown(job.cpu.used, "{:.2f}"), _part(job.cpu.used, job.cpu.asked)),
        ("memory", memory(job.memory.asked_mib), peak or "unknown", _part(job.memory.used_mib, job.memory.asked_mib)),
        ("time", duration(job.time.limit_s) if job.time.limit_s else "no limit",
         "unknown" if job.time.used_s is None else duration(job.time.used_s), _part(job.time.used_s, job.time.limit_s)),
    ]  # fmt: skip
    if job.gpu.asked:
        rows.append(
            ("GPU", f"{job.gpu.asked:g}", _or_unknown(job.gpu.used, "{:.2f}"), _part(job.gpu.used, job.gpu.asked))
        )
    table = layout(("RESOURCE", "ASKED", "USED", "PART"), rows)
    said = [*job.advice, *job.unknown]
    return [f"{printable(job.name)}  {job.job}  {job.phase}{of}", *(f"  {line}" for line in table), *said]


def _or_unknown(used: float | None, form: str) -> str:
    return "unknown" if used is None else form.format(used)


def _part(used: float | None, asked: float | None) -> str:
    return "" if used is None or not asked else f"{used / asked:.0%}"
