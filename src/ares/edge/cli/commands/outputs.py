"""`ares outputs`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect, find_job, job_argument, of_one_job
from ares.edge.cli.render.output import output_option, print_objects

if TYPE_CHECKING:
    from ares.api.jobs import OutputList
    from ares.edge.cli.render.table import Columns
    from ares.edge.client.outputs import OutputFile
    from ares.edge.client.sync import Client

FILES: "Columns[OutputFile]" = {
    "PATH": lambda file: file.path,
    "BYTES": lambda file: f"{file.size:,}",
    "SHA-256": lambda file: file.sha256,
}


@click.command()
@job_argument()
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option("--to", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Save them below this.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def outputs(ctx: click.Context, job: str, paths: tuple[str, ...], to: Path | None, output: str) -> None:
    """Lists or saves the files of a job's result.

    They are there when the job has succeeded: what its committed attempt left in ARES_OUTPUT_DIR.
    Without --to they are listed. With it they are saved, all of them or those named by PATH, a file
    or a directory, and each only if its SHA-256 is the one that was committed.
    """
    from ares.edge.client.outputs import chosen, listing

    client = connect(ctx)
    job_id = find_job(client, job)
    with of_one_job(client, job_id, "outputs"):
        raw: Any = client.send(listing(job_id).raw())
    found = listing(job_id).read(raw)
    kept = {file.path for file in chosen(found, paths)}
    raw["files"] = [file for file in raw["files"] if file["path"] in kept]
    if to is not None:
        _save(client, found, to, paths)
    if not print_objects(output, raw, lambda listed: [file["path"] for file in listed["files"]]) and to is None:
        _print(client, found, kept)


def _print(client: "Client", found: "OutputList", kept: set[str]) -> None:
    from ares.edge.cli.render.table import print_records

    if not found.committed:
        phase = client.get(found.job).state.phase
        click.echo(f"{found.job} is {phase}: outputs are there once a job has succeeded", err=True)
        return
    print_records(FILES, (file for file in found.files if file.path in kept), of="outputs")


def _save(client: "Client", found: "OutputList", to: Path, paths: tuple[str, ...]) -> None:
    from ares.edge.cli.render.progress import Bars
    from ares.edge.client.outputs import chosen

    files = chosen(found, paths)
    total, done = sum(file.size for file in files), dict.fromkeys((file.path for file in files), 0)

    with Bars([found.job], "bytes", quiet=not sys.stderr.isatty()) as bars:

        def show(path: str, size: int, _of: int) -> None:
            done[path] = size
            bars.show(0, sum(done.values()), total)

        saved = client.download(found.job, to, paths, on_progress=show)
    click.echo(f"{len(saved)} files, {total:,} bytes, in {to}", err=True)
