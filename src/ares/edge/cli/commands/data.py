"""`ares data`: files that a tenant publishes under a name, and that jobs read; bytes on their way."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.commands.data_top import top
from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, note, output_option, print_objects, show
from ares.edge.cli.render.progress import Bars
from ares.edge.cli.render.text import age, printable

if TYPE_CHECKING:
    from ares.api.projects import DatasetVersionView, DatasetView
    from ares.edge.cli.render.table import Columns

# Less than this is there before a bar could be read.
_SHOWN_BYTES = 32 << 20
_MIB = 1 << 20
_DIGITS = 12


def _size(size: int) -> str:
    from ares.edge.client.project.pack import size_text

    return size_text(size)


DATASETS: "Columns[DatasetView]" = {
    "NAME": lambda dataset: dataset.name,
    "LATEST": lambda dataset: dataset.versions[0].sha256[:_DIGITS],
    "FILES": lambda dataset: f"{dataset.versions[0].files:,}",
    "SIZE": lambda dataset: _size(dataset.versions[0].bytes),
    "VERSIONS": lambda dataset: f"{len(dataset.versions):,}",
    "BY": lambda dataset: dataset.versions[0].by,
    "AGE": lambda dataset: age(dataset.versions[0].at),
}
VERSIONS: "Columns[DatasetVersionView]" = {
    "VERSION": lambda version: version.sha256[:_DIGITS],
    "FILES": lambda version: f"{version.files:,}",
    "SIZE": lambda version: _size(version.bytes),
    "BY": lambda version: version.by,
    "AGE": lambda version: age(version.at),
    "REFERENCE": lambda version: version.ref,
}


@click.group()
def data() -> None:
    """Publishes and lists datasets that jobs read; shows transfers."""


data.add_command(top)


@data.command()
@click.argument("source", type=click.Path(exists=True), metavar="DIR|FILE")
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def put(ctx: click.Context, source: str, name: str, output: str) -> None:
    """Publishes a directory or a file as a dataset's newest version.

    What the server has already is not sent again. After a failure the same command goes on where it was.
    """
    from ares.edge.client.calls import datasets

    client = connect(ctx)
    with Bars(("read", "sent"), "MiB") as bars:
        seen = _DataBytes(bars, ("read", "sent"))
        files = datasets.packed_data(source, seen.of(0))
        seen.total = files.size
        sent = datasets.put(client, files, name, seen.of(1))
    for text in sent.warnings:
        click.echo(f"warning: {printable(text)}", err=True)
    if not print_objects(output, _plain(sent), lambda value: [value["ref"]]):
        new = f"{_size(sent.sent)} sent" if sent.sent else "nothing had to be sent"
        click.echo(f"published {sent.name}: {_files(sent.files)}, {_size(sent.bytes)}, {new}")
        click.echo(sent.ref)
        note(f"give it to a job with `ares submit --input data=ares://datasets/{sent.name}`")


@data.command()
@click.argument("name", metavar="NAME[@VERSION]")
@click.argument("directory", required=False, metavar="[DIR]")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def get(ctx: click.Context, name: str, directory: str | None, output: str) -> None:
    """Saves a dataset below a directory, by default one of its name.

    Without a version it is the newest. What is there already is not fetched again, and after a failure the same command
    goes on where it was.
    """
    from ares.edge.client.calls import datasets

    client, root = connect(ctx), Path(directory or datasets.reference(name).name)
    with Bars(("received",), "MiB") as bars:
        seen = _DataBytes(bars, ("received",))
        saved = datasets.get(client, name, root, seen.expect, seen.of(0))
    if not print_objects(output, _plain(saved), lambda value: [value["directory"]]):
        new = f"{_size(saved.received)} fetched" if saved.received else "nothing had to be fetched"
        click.echo(f"saved {saved.ref}")
        click.echo(f"in {printable(saved.directory)}: {_files(saved.files)}, {_size(saved.bytes)}, {new}")


@data.command("ls")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def list_(ctx: click.Context, output: str) -> None:
    """Lists the tenant's datasets."""
    from ares.edge.client.calls import datasets

    show(connect(ctx), datasets.datasets(), DATASETS, output, of="datasets")


@data.command("show")
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show_(ctx: click.Context, name: str, output: str) -> None:
    """Shows the versions of a dataset, the newest first."""
    from ares.edge.cli.render.table import print_records
    from ares.edge.client.calls import datasets

    found = answer(connect(ctx), datasets.dataset(datasets.reference(name).name), output, "ref")
    if found is not None:
        print_records(VERSIONS, found.versions, of="versions")


@data.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME[@VERSION]...")
@click.option("--force", is_flag=True, help="Also what jobs that have not ended are given; they fail then.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def rm(ctx: click.Context, names: tuple[str, ...], force: bool, output: str) -> None:
    """Removes datasets, or single versions of them.

    Without --force, what is given to jobs that have not ended stays, and the jobs are named.
    """
    from ares.edge.client.calls import datasets

    client = connect(ctx)
    for name in names:
        ref = datasets.reference(name)
        if ref.sha256:
            ref = datasets.chosen_version(ref, client.send(datasets.dataset(ref.name)))
        gone = answer(client, datasets.remove(ref, force=force), output)
        if gone is not None:
            lost = f"; {gone.jobs:,} jobs that have not ended lack it now: {', '.join(gone.named)}" if gone.jobs else ""
            versions = f"{gone.versions:,} version{'' if gone.versions == 1 else 's'}"
            click.echo(f"removed {gone.name}: {versions}, {_size(gone.bytes)}{lost}")


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


class _DataBytes:
    """Bytes so far, for the bars."""

    def __init__(self, bars: Bars, names: tuple[str, ...]) -> None:
        self._bars = bars
        self._done = [0] * len(names)
        self.total = 0

    def expect(self, total: int) -> None:
        self.total = total

    def of(self, at: int) -> Any:
        def add(size: int) -> None:
            self._done[at] += size
            done = self._done[at]
            if sys.stderr.isatty() and done >= _SHOWN_BYTES:
                self._bars.show(at, done // _MIB, max(done, self.total) // _MIB)

        return add
