"""Requests about datasets, and the methods of both clients that publish and save them."""

from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from ares.api.projects import DatasetView, PartsBody, PublishedDataset, RemovedDataset
from ares.core.dataset import PREFIX, DatasetFlaw, DatasetRef, parse_ref
from ares.edge.client.brief import Sender
from ares.edge.client.calls.calls import JSON, Call, Request, part
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.project.digests import DigestMemory, OnBytes
from ares.edge.client.project.pack import Packed, packed
from ares.edge.client.project.receive import OnReceived, Receiving
from ares.edge.client.project.scan import chosen, whole
from ares.edge.client.project.ship import AsyncWorkAside, Directory, ShipProgress, WorkAside
from ares.edge.client.sending import AsyncSends, Sends

# Data is named by its owner: nothing in it is there by mistake.
_ANY = 1 << 60


class SavedDataset(Struct, frozen=True):
    """A version of a dataset that is on this machine now."""

    ref: str
    directory: str
    files: int
    bytes: int
    # What had to be fetched.
    received: int


class SentDataset(Struct, frozen=True):
    """A version that was published, and what had to be sent for it."""

    ref: str
    name: str
    sha256: str
    files: int
    bytes: int
    sent: int
    warnings: tuple[str, ...] = ()


# ---- requests


def datasets() -> Call[tuple[DatasetView, ...]]:
    return Call(Request("GET", "/v1/datasets"), tuple[DatasetView, ...], "datasets")


def dataset(name: str) -> Call[DatasetView]:
    return Call(Request("GET", _path(name)), DatasetView)


def publish(name: str, manifest: bytes) -> Call[PublishedDataset]:
    return Call(Request("PUT", _path(name), (), manifest, JSON), PublishedDataset)


def remove(ref: DatasetRef, *, force: bool) -> Call[RemovedDataset]:
    params = ((("version", ref.sha256),) if ref.sha256 else ()) + ((("force", "true"),) if force else ())
    # Sent twice it would say that there is none.
    return Call(Request("DELETE", _path(ref.name), params, repeatable=False), RemovedDataset)


def manifest(ref: DatasetRef) -> Call[bytes]:
    return Call(Request("GET", f"{_path(ref.name)}/manifest", (("version", ref.sha256),)), bytes)


def parts(ref: DatasetRef, wanted: tuple[str, ...]) -> Call[bytes]:
    body = msgspec.json.encode(PartsBody(version=ref.sha256, parts=wanted))
    return Call(Request("POST", f"{_path(ref.name)}/parts", (), body, JSON), bytes)


def _path(name: str) -> str:
    return f"/v1/datasets/{part(name)}"


# ---- what is named


def reference(text: str) -> DatasetRef:
    """NAME, NAME@VERSION with the first digits of a version, or all of `ares://datasets/...`. Raises InvalidSpec."""
    name, mark, version = text.removeprefix(PREFIX).partition("@")
    try:
        plain = parse_ref(f"{PREFIX}{name}")
    except DatasetFlaw as flaw:
        raise InvalidSpec(str(flaw), fix="name a dataset, such as imagenet or imagenet@9f86d081") from None
    digits = version.removeprefix("sha256:")
    if mark and (len(digits) < 4 or len(digits) > 64 or set(digits) - set("0123456789abcdef")):
        raise InvalidSpec(
            f"{version!r} is no version", fix="give at least four digits of it, as `ares data show` has them"
        )
    return DatasetRef(plain.name, digits)


def chosen_version(ref: DatasetRef, found: DatasetView) -> DatasetRef:
    """With all digits of the version that is meant, the newest if none is. Raises InvalidSpec."""
    fitting = [version.sha256 for version in found.versions if version.sha256.startswith(ref.sha256)]
    if len(fitting) == 1 or (fitting and not ref.sha256):
        return DatasetRef(ref.name, fitting[0])
    why = f"{len(fitting)} versions of {ref.name} begin with" if fitting else f"no version of {ref.name} begins with"
    raise InvalidSpec(f"{why} {ref.sha256}", fix=f"`ares data show {ref.name}` lists its versions")


def packed_data(source: Directory, on_read: OnBytes) -> Packed:
    """A directory with all that is below it, or one file. Raises InvalidSpec."""
    path = Path(source).expanduser().absolute()
    if path.is_dir():
        return packed(whole(path), DigestMemory(f"{path} as data"), _ANY, None, on_read)
    if not path.is_file():
        raise InvalidSpec(f"{source} is no file and no directory here", fix="name what is to be published")
    return packed(chosen(path.parent, (path.name,)), None, _ANY, None, on_read)


def _sent(progress: ShipProgress, files: Packed, answer: PublishedDataset) -> SentDataset:
    if not answer.kept:
        raise InvalidSpec(f"{len(answer.missing):,} parts of the dataset are still missing", fix="publish it again")
    return SentDataset(
        answer.ref, answer.name, answer.sha256, answer.files, answer.bytes, progress.sent, files.warnings
    )


def _nothing(_: int) -> None:
    return


# ---- from the command line


def put(sender: Sender, files: Packed, name: str, on_sent: OnBytes) -> SentDataset:
    """Sends what is missing, then publishes."""
    answer = sender.send(publish(name, files.manifest))
    progress = ShipProgress(files, answer.missing, on_sent)
    if answer.missing:
        WorkAside.together(partial(progress.send_all, sender))
        answer = sender.send(publish(name, files.manifest))
    return _sent(progress, files, answer)


def get(sender: Sender, text: str, root: Path, on_begin: OnBytes, on_bytes: OnReceived) -> SavedDataset:
    """`on_begin` is told the size of all."""
    ref = reference(text)
    ref = chosen_version(ref, sender.send(dataset(ref.name)))
    receiving = Receiving(root, sender.send(manifest(ref)), ref.sha256, on_bytes)
    on_begin(receiving.size)
    receiving.begin()

    def fetch() -> None:
        try:
            while (some := receiving.next()) is not None:
                receiving.take(some, sender.send(parts(ref, some)))
        except BaseException:
            receiving.stop()
            raise

    WorkAside.together(fetch)
    return _saved(receiving, ref, root)


def _saved(receiving: Receiving, ref: DatasetRef, root: Path) -> SavedDataset:
    receiving.finish()
    return SavedDataset(str(ref), str(root), receiving.files, receiving.size, receiving.received)


# ---- of the clients


class AsyncDatasetMethods(AsyncSends):
    """Datasets, of the asynchronous client."""

    async def datasets(self) -> tuple[DatasetView, ...]:
        """The tenant's datasets, by name."""
        return await self.send(datasets())

    async def dataset(self, name: str) -> DatasetView:
        """A dataset with its versions, the newest first."""
        return await self.send(dataset(name))

    async def put_dataset(
        self, source: Directory, name: str, *, on_read: OnBytes = _nothing, on_sent: OnBytes = _nothing
    ) -> SentDataset:
        """Publishes a directory, or a file, as the newest version of a dataset. What the server has already is not sent
        again, and what was sent before a failure neither."""
        files = await AsyncWorkAside.run(partial(packed_data, source, on_read))
        answer = await self.send(publish(name, files.manifest))
        progress = ShipProgress(files, answer.missing, on_sent)
        if answer.missing:
            await AsyncWorkAside.together(partial(self._send_data, progress))
            answer = await self.send(publish(name, files.manifest))
        return _sent(progress, files, answer)

    async def _send_data(self, progress: ShipProgress) -> None:
        try:
            while (some := progress.next()) is not None:
                call = await AsyncWorkAside.run(partial(progress.call, some))
                progress.kept(some, call, await self.send(call))
        except BaseException:
            progress.stop()
            raise

    async def get_dataset(
        self, name: str, directory: Directory | None = None, *, on_bytes: OnReceived = _nothing
    ) -> SavedDataset:
        """Saves a version below a directory, its name if none is given: "imagenet", "imagenet@9f86d081". What is there
        already is not fetched again."""
        ref = reference(name)
        ref = chosen_version(ref, await self.send(dataset(ref.name)))
        root = Path(directory or ref.name)
        receiving = Receiving(root, await self.send(manifest(ref)), ref.sha256, on_bytes)
        await AsyncWorkAside.run(receiving.begin)
        await AsyncWorkAside.together(partial(self._receive, ref, receiving))
        return await AsyncWorkAside.run(partial(_saved, receiving, ref, root))

    async def _receive(self, ref: DatasetRef, receiving: Receiving) -> None:
        try:
            while (some := receiving.next()) is not None:
                body = await self.send(parts(ref, some))
                await AsyncWorkAside.run(partial(receiving.take, some, body))
        except BaseException:
            receiving.stop()
            raise

    async def remove_dataset(self, name: str, *, force: bool = False) -> RemovedDataset:
        """Removes a dataset, or one version: "imagenet@9f86d081". With `force` also from under jobs that have not
        ended."""
        ref = reference(name)
        if ref.sha256:
            ref = chosen_version(ref, await self.send(dataset(ref.name)))
        return await self.send(remove(ref, force=force))


class DatasetMethods(Sends):
    """Datasets, of the blocking client, generated."""

    def datasets(self) -> tuple[DatasetView, ...]:
        """The tenant's datasets, by name."""
        return self.send(datasets())

    def dataset(self, name: str) -> DatasetView:
        """A dataset with its versions, the newest first."""
        return self.send(dataset(name))

    def put_dataset(
        self, source: Directory, name: str, *, on_read: OnBytes = _nothing, on_sent: OnBytes = _nothing
    ) -> SentDataset:
        """Publishes a directory, or a file, as the newest version of a dataset. What the server has already is not sent
        again, and what was sent before a failure neither."""
        files = WorkAside.run(partial(packed_data, source, on_read))
        answer = self.send(publish(name, files.manifest))
        progress = ShipProgress(files, answer.missing, on_sent)
        if answer.missing:
            WorkAside.together(partial(self._send_data, progress))
            answer = self.send(publish(name, files.manifest))
        return _sent(progress, files, answer)

    def _send_data(self, progress: ShipProgress) -> None:
        try:
            while (some := progress.next()) is not None:
                call = WorkAside.run(partial(progress.call, some))
                progress.kept(some, call, self.send(call))
        except BaseException:
            progress.stop()
            raise

    def get_dataset(
        self, name: str, directory: Directory | None = None, *, on_bytes: OnReceived = _nothing
    ) -> SavedDataset:
        """Saves a version below a directory, its name if none is given: "imagenet", "imagenet@9f86d081". What is there
        already is not fetched again."""
        ref = reference(name)
        ref = chosen_version(ref, self.send(dataset(ref.name)))
        root = Path(directory or ref.name)
        receiving = Receiving(root, self.send(manifest(ref)), ref.sha256, on_bytes)
        WorkAside.run(receiving.begin)
        WorkAside.together(partial(self._receive, ref, receiving))
        return WorkAside.run(partial(_saved, receiving, ref, root))

    def _receive(self, ref: DatasetRef, receiving: Receiving) -> None:
        try:
            while (some := receiving.next()) is not None:
                body = self.send(parts(ref, some))
                WorkAside.run(partial(receiving.take, some, body))
        except BaseException:
            receiving.stop()
            raise

    def remove_dataset(self, name: str, *, force: bool = False) -> RemovedDataset:
        """Removes a dataset, or one version: "imagenet@9f86d081". With `force` also from under jobs that have not
        ended."""
        ref = reference(name)
        if ref.sha256:
            ref = chosen_version(ref, self.send(dataset(ref.name)))
        return self.send(remove(ref, force=force))
