"""The files that go with a job from the command line: which directory, what is asked before, and what is said after."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.render.progress import Bars
from ares.edge.cli.render.text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from ares.edge.client.brief import Sender
    from ares.edge.client.project.pack import TooMuch
    from ares.edge.client.project.ship import Shipped
    from ares.model.job import JobSpec

# Less than this is there before a bar could be read.
_SHOWN_BYTES = 32 << 20
_MIB = 1 << 20
_LOOKED_AT_BYTES = 4096


def directory(layers: Sequence[Mapping[str, object]]) -> "Path | None":
    """The directory to ship: the one named last, by a flag or in the job's file; otherwise the current one."""
    from ares.edge.client.ask import of_the_machine

    named = [layer["workdir"] for layer in layers if layer.get("workdir") is not None]
    if any(layer.get(key) is not None for layer in layers for key in ("chdir", "project")):
        return None
    if named and of_the_machine(named[-1]):
        return None
    from ares.edge.client.project.pack import default_directory, directory_of

    if named:
        return directory_of(str(named[-1]))
    folder, why = default_directory()
    if why:
        click.echo(
            f"note: nothing is shipped with the job: {why}. It starts in an empty directory; "
            "ship one with --workdir DIR, or say --workdir none",
            err=True,
        )
    return folder


def refuse_bare_script(spec: "JobSpec", root: "Path") -> None:
    """`ares submit job.sh`, as `sbatch job.sh`: a command is looked for in PATH, where a file of the project is not."""
    import os
    from shutil import which

    from ares.edge.client.errors import InvalidSpec

    name = spec.command[0] if spec.command else ""
    script = root / name
    if not name or "/" in name or spec.image is not None or which(name) or not script.is_file():
        return
    with script.open("rb") as file:
        begin = file.read(_LOOKED_AT_BYTES)
    first = begin.splitlines()[0].decode(errors="replace").split() if begin.startswith(b"#!") else []
    by_name = "python" if name.endswith(".py") else "sh"
    # Of `#!/bin/bash -e` and of `#!/usr/bin/env bash`.
    words = [os.path.basename(word.removeprefix("#!")) for word in first if not word.startswith("-")]
    program = words[1] if words[:1] == ["env"] and len(words) > 1 else words[0] if words else by_name
    way = f"./{name}" if os.access(script, os.X_OK) and first else f"{program} {name}"
    options = "; its #SBATCH lines are not read: say them as options" if b"\n#SBATCH" in begin else ""
    raise InvalidSpec(
        f"{printable(name)} is a file of the project and no command", fix=f"ares submit -- {printable(way)}{options}"
    )


def with_python(client: "Sender", spec: "JobSpec", layers: Sequence[Mapping[str, Any]], *, active: bool) -> "JobSpec":
    """The job with the environment that is named last, by a flag or in the job's file; with `active` or else the active
    one."""
    from msgspec.structs import replace

    from ares.edge.client.project import environment
    from ares.model.job import PythonEnvironment

    wish = next((layer["python"] for layer in reversed(layers) if layer.get("python") is not None), None)
    if environment.of_the_api(wish):
        return spec
    found = environment.python_of(
        wish, environment.active_environment(of_this_python=False) if active and spec.image is None else None
    )
    if isinstance(found, environment.PythonFiles):
        from ares.edge.client.project import ship as shipping

        shipped = shipping.ship(client, shipping.packed_files(found, _ask, _nothing), _nothing)
        return replace(spec, python=PythonEnvironment(project=shipped.sha256, file=found.file))
    if found is not None and not found.required:
        click.echo(f"uses the active environment {printable(str(found.path))} where its machine has it", err=True)
    return replace(spec, python=found)


def _nothing(_: int) -> None:
    return


def ship(client: "Sender", root: "Path", *, yes: bool) -> "Shipped":
    """Ships a directory, and says so in a line."""
    from ares.edge.client.project import ship as shipping
    from ares.edge.client.project.pack import size_text

    with Bars(("read", "sent"), "MiB") as bars:
        seen = _ShippedBytes(bars)
        packed = shipping.packed_of(root, 1 << 60 if yes else None, _ask, seen.read)
        shipped = shipping.ship(client, packed, seen.sent)
    for text in shipped.warnings:
        click.echo(f"warning: {printable(text)}", err=True)
    files = f"{shipped.files:,} file{'' if shipped.files == 1 else 's'}"
    new = f"{size_text(shipped.sent)} new" if shipped.sent else "nothing new"
    click.echo(f"shipped {printable(str(root))}: {files}, {size_text(shipped.size)}, {new}", err=True)
    return shipped


def with_image(client: "Sender", spec: "JobSpec") -> "JobSpec":
    """The job with its image shipped, if that lies on this machine; says so in a line."""
    if spec.image is None or spec.image.project is not None:
        return spec
    from msgspec.structs import replace

    from ares.edge.client.calls.projects import image_to_ship, local_image
    from ares.edge.client.project import image as images
    from ares.edge.client.project import ship as shipping
    from ares.edge.client.project.pack import size_text

    if (wish := image_to_ship(spec)) is None:
        return spec
    found = local_image(wish.ref)
    if (known := images.known_manifest(found)) is not None and (answer := client.send(shipping.offer(known))).kept:
        digest, size, sent = answer.sha256, answer.bytes, 0
    else:
        with Bars(("read", "sent"), "MiB") as bars:
            seen = _ShippedBytes(bars)
            with images.packed_image(found, 1 << 60, None, seen.read) as packed:
                shipped = shipping.ship(client, packed, seen.sent)
                images.remember_manifest(found, packed.manifest)
        digest, size, sent = shipped.sha256, shipped.size, shipped.sent
    new = f"{size_text(sent)} new" if sent else "nothing new"
    click.echo(f"shipped image {printable(found.path)}: {size_text(size)}, {new}", err=True)
    return replace(spec, image=replace(wish, project=digest))


def _ask(much: "TooMuch") -> bool:
    """Only a person can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    click.echo(f"{printable(much.sentence())}.", err=True)
    return click.confirm("Ship them all the same? Lines in .aresignore leave files out", err=True)


class _ShippedBytes:
    """Bytes so far, for the bars."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._read = self._sent = 0

    def read(self, size: int) -> None:
        self._read += size
        self._show(0, self._read)

    def sent(self, size: int) -> None:
        self._sent += size
        self._show(1, self._sent)

    def _show(self, at: int, done: int) -> None:
        if sys.stderr.isatty() and done >= _SHOWN_BYTES:
            self._bars.show(at, done // _MIB, max(done, self._read) // _MIB)
