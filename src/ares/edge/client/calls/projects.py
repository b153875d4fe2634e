"""Projects of both clients: a directory is shipped, by itself or with the job that starts with it."""

import warnings
from functools import partial
from typing import Any

from msgspec.structs import replace

from ares.edge.client.ask import of_the_machine
from ares.edge.client.project.aside import AsyncWorkAside, WorkAside
from ares.edge.client.project.digests import OnBytes
from ares.edge.client.project.pack import Ask, default_directory, directory_of
from ares.edge.client.project.ship import Directory, Shipped, ShipProgress, offer, packed_of
from ares.edge.client.sending import AsyncSends, Sends
from ares.model.job import JobSpec


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


def _told(shipped: Shipped, spec: JobSpec) -> JobSpec:
    for text in shipped.warnings:
        warnings.warn(text, stacklevel=4)
    return replace(spec, project=shipped.sha256)


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
        """The job with the project that it is to start with."""
        wish = directory_of(wished(given, ask))
        return spec if wish is None else _told(await self.ship(wish), spec)


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
        """The job with the project that it is to start with."""
        wish = directory_of(wished(given, ask))
        return spec if wish is None else _told(self.ship(wish), spec)
