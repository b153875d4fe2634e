"""Projects of both clients: a directory is shipped, by itself or with the job that starts with it."""

import warnings
from functools import partial
from typing import Any

from msgspec.structs import replace

from ares.core.image.reference import SHIPPED, ImageFlaw, ShippedImage, parse
from ares.edge.client.ask import of_the_machine
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.project.digests import OnBytes
from ares.edge.client.project.environment import PythonFiles, active_environment, of_the_api, python_of
from ares.edge.client.project.environment import Wish as PythonWish
from ares.edge.client.project.image import known_manifest, packed_image, remember_manifest
from ares.edge.client.project.pack import Ask, Packed, default_directory, directory_of
from ares.edge.client.project.ship import (
    AsyncWorkAside,
    Directory,
    Shipped,
    ShipProgress,
    WorkAside,
    offer,
    packed_files,
    packed_of,
)
from ares.edge.client.sending import AsyncSends, Sends
from ares.model.job import Image, JobSpec, PythonEnvironment

# An image is named one by one: nothing in it is there by mistake.
_ANY = 1 << 60


def wished(spec: JobSpec | None, ask: dict[str, Any]) -> Directory | None:
    """The directory that is to be shipped with a job; None when there is none. A spec is complete as it is."""
    if spec is not None or ask.get("project") is not None:
        return None
    wish = ask.get("workdir")
    if ask.get("chdir") is not None or of_the_machine(wish):
        return None
    if wish is not None:
        return wish
    folder, why = default_directory()
    if why:
        warnings.warn(f"nothing is shipped with the job: {why}; say workdir=", stacklevel=4)
    return folder


def python_wished(given: JobSpec | None, spec: JobSpec, ask: dict[str, Any]) -> PythonEnvironment | PythonFiles | None:
    """The environment that a job is to have. A spec is complete as it is."""
    wish = ask.get("python")
    if given is not None or of_the_api(wish):
        return spec.python
    return python_of(wish, active_environment(of_this_python=True) if spec.image is None else None)


def _told(shipped: Shipped, spec: JobSpec) -> JobSpec:
    for text in shipped.warnings:
        warnings.warn(text, stacklevel=4)
    return replace(spec, project=shipped.sha256)


def image_to_ship(spec: JobSpec) -> Image | None:
    """The job's image, if it lies on this machine and was not shipped yet."""
    image = spec.image
    if image is None or image.project is not None or not image.ref.startswith(tuple(f"{kind}:" for kind in SHIPPED)):
        return None
    return image


def local_image(ref: str) -> ShippedImage:
    """Raises InvalidSpec."""
    try:
        found = parse(ref)
    except ImageFlaw as flaw:
        raise InvalidSpec(str(flaw), fix="name an archive or a directory of yours") from None
    if not isinstance(found, ShippedImage):
        raise InvalidSpec(f"{ref} does not lie on this machine", fix="submit with it: its node fetches it")
    return found


def _nothing(_: int) -> None:
    return


class AsyncProjectMethods(AsyncSends):
    """Projects, of the asynchronous client."""

    async def ship(
        self,
        directory: Directory = ".",
        *,
        limit: str | int | None = None,
        ask: Ask | None = None,
        on_read: OnBytes = _nothing,
        on_sent: OnBytes = _nothing,
    ) -> Shipped:
        """Ships a directory for jobs to start with: what the server has already is not sent again. More new bytes than
        `limit` are refused, unless `ask` says yes."""
        packed = await AsyncWorkAside.run(partial(packed_of, directory, limit, ask, on_read))
        return await self._sent(packed, on_sent)

    async def ship_python(self, python: PythonWish) -> PythonEnvironment:
        """Ships what an environment is built from, once for many jobs: their `python`."""
        found = python_of(python)
        if not isinstance(found, PythonFiles):
            raise InvalidSpec(f"python: {python} is no file to build from", fix="name it as the job's python")
        return await self._ship_python(found)

    async def _ship_python(self, files: PythonFiles) -> PythonEnvironment:
        packed = await AsyncWorkAside.run(partial(packed_files, files, None, _nothing))
        return PythonEnvironment(project=(await self._sent(packed, _nothing)).sha256, file=files.file)

    async def _sent(self, packed: Packed, on_sent: OnBytes = _nothing) -> Shipped:
        answer = await self.send(offer(packed.manifest))
        progress = ShipProgress(packed, answer.missing, on_sent)
        if answer.missing:
            await AsyncWorkAside.together(partial(self._send_parts, progress))
            answer = await self.send(offer(packed.manifest))
        return progress.shipped(answer)

    async def _send_parts(self, progress: ShipProgress) -> None:
        try:
            while (some := progress.next()) is not None:
                call = await AsyncWorkAside.run(partial(progress.call, some))
                progress.kept(some, call, await self.send(call))
        except BaseException:
            progress.stop()
            raise

    async def _with_files(self, given: JobSpec | None, spec: JobSpec, ask: dict[str, Any]) -> JobSpec:
        """The job with the project that it is to start with, and its Python environment."""
        wish = directory_of(wished(given, ask))
        if wish is not None:
            spec = _told(await self.ship(wish), spec)
        if (image := image_to_ship(spec)) is not None:
            spec = replace(spec, image=Image(ref=image.ref, project=(await self.ship_image(image.ref)).sha256))
        found = python_wished(given, spec, ask)
        return replace(spec, python=await self._ship_python(found) if isinstance(found, PythonFiles) else found)

    async def ship_image(self, ref: str) -> Shipped:
        """Ships an image of this machine for jobs to run in: "oci-archive:FILE", "docker-archive:FILE" or
        "oci:DIRECTORY". `submit` does it by itself."""
        image = local_image(ref)
        if (known := known_manifest(image)) is not None and (answer := await self.send(offer(known))).kept:
            return Shipped(answer.sha256, image.path, answer.files, answer.bytes, 0)
        with packed_image(image, _ANY, None, _nothing) as packed:
            shipped = await self._sent(packed)
            remember_manifest(image, packed.manifest)
            return shipped


class ProjectMethods(Sends):
    """Projects, of the blocking client, generated."""

    def ship(
        self,
        directory: Directory = ".",
        *,
        limit: str | int | None = None,
        ask: Ask | None = None,
        on_read: OnBytes = _nothing,
        on_sent: OnBytes = _nothing,
    ) -> Shipped:
        """Ships a directory for jobs to start with: what the server has already is not sent again. More new bytes than
        `limit` are refused, unless `ask` says yes."""
        packed = WorkAside.run(partial(packed_of, directory, limit, ask, on_read))
        return self._sent(packed, on_sent)

    def ship_python(self, python: PythonWish) -> PythonEnvironment:
        """Ships what an environment is built from, once for many jobs: their `python`."""
        found = python_of(python)
        if not isinstance(found, PythonFiles):
            raise InvalidSpec(f"python: {python} is no file to build from", fix="name it as the job's python")
        return self._ship_python(found)

    def _ship_python(self, files: PythonFiles) -> PythonEnvironment:
        packed = WorkAside.run(partial(packed_files, files, None, _nothing))
        return PythonEnvironment(project=(self._sent(packed, _nothing)).sha256, file=files.file)

    def _sent(self, packed: Packed, on_sent: OnBytes = _nothing) -> Shipped:
        answer = self.send(offer(packed.manifest))
        progress = ShipProgress(packed, answer.missing, on_sent)
        if answer.missing:
            WorkAside.together(partial(self._send_parts, progress))
            answer = self.send(offer(packed.manifest))
        return progress.shipped(answer)

    def _send_parts(self, progress: ShipProgress) -> None:
        try:
            while (some := progress.next()) is not None:
                call = WorkAside.run(partial(progress.call, some))
                progress.kept(some, call, self.send(call))
        except BaseException:
            progress.stop()
            raise

    def _with_files(self, given: JobSpec | None, spec: JobSpec, ask: dict[str, Any]) -> JobSpec:
        """The job with the project that it is to start with, and its Python environment."""
        wish = directory_of(wished(given, ask))
        if wish is not None:
            spec = _told(self.ship(wish), spec)
        if (image := image_to_ship(spec)) is not None:
            spec = replace(spec, image=Image(ref=image.ref, project=(self.ship_image(image.ref)).sha256))
        found = python_wished(given, spec, ask)
        return replace(spec, python=self._ship_python(found) if isinstance(found, PythonFiles) else found)

    def ship_image(self, ref: str) -> Shipped:
        """Ships an image of this machine for jobs to run in: "oci-archive:FILE", "docker-archive:FILE" or
        "oci:DIRECTORY". `submit` does it by itself."""
        image = local_image(ref)
        if (known := known_manifest(image)) is not None and (answer := self.send(offer(known))).kept:
            return Shipped(answer.sha256, image.path, answer.files, answer.bytes, 0)
        with packed_image(image, _ANY, None, _nothing) as packed:
            shipped = self._sent(packed)
            remember_manifest(image, packed.manifest)
            return shipped
