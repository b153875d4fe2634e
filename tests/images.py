"""Small container images, made by the test that uses them: a busybox of this machine, and other layers."""

import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import httpx

from tests.platform import eventually
from tests.ports import free_ports

BUSYBOX = shutil.which("busybox") or "/bin/busybox"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
_APPLETS = (
    "sh", "ls", "cat", "id", "true", "false", "env", "sleep", "touch", "mkdir", "echo", "ps", "rm", "pwd", "stat", "nc",
    "mount", "readlink", "wc", "grep", "test", "kill", "dd", "sed", "chmod", "mknod", "tar",
)  # fmt: skip

Member = tuple[tarfile.TarInfo, bytes]
Packing = Literal["gzip", "zstd", ""]


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, mode: int = 0o644, **more: Any) -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.mtime = kind, mode, len(data), 1_700_000_000
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def folder(name: str, mode: int = 0o755) -> Member:
    return member(name, kind=tarfile.DIRTYPE, mode=mode)


def link(name: str, target: str) -> Member:
    return member(name, kind=tarfile.SYMTYPE, mode=0o777, linkname=target)


def packed(members: Iterable[Member]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def busybox() -> list[Member]:
    """The first layer of all images here that run anything."""
    files = [folder(name) for name in ("bin", "etc", "root", "home")]
    files.append(folder("tmp", 0o1777))
    files.append(member("bin/busybox", Path(BUSYBOX).read_bytes(), mode=0o755))
    files += [link(f"bin/{name}", "busybox") for name in _APPLETS]
    files.append(member("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nworker:x:1000:1000::/home/worker:/bin/sh\n"))
    return files


class Image:
    """An OCI image in memory: its blobs by digest, and the index that leads to them."""

    def __init__(
        self,
        layers: Iterable[Iterable[Member] | bytes] | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        packing: Packing = "gzip",
        architecture: str = ARCHITECTURE,
    ) -> None:
        self.blobs: dict[str, bytes] = {}
        plain = [layer if isinstance(layer, bytes) else packed(layer) for layer in (layers or [busybox()])]
        self.plain = plain
        described = [self._kept(_compressed(layer, packing)) for layer in plain]
        self.config = json.dumps({
            "architecture": architecture, "os": "linux", "config": dict(config or {}),
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer) for layer in plain]},
        }).encode()  # fmt: skip
        kind, suffix = "application/vnd.oci.image", f"+{packing}" if packing else ""
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": f"{kind}.manifest.v1+json",
            "config": {"mediaType": f"{kind}.config.v1+json", **self._kept(self.config)},
            "layers": [{"mediaType": f"{kind}.layer.v1.tar{suffix}", **layer} for layer in described],
        }).encode()  # fmt: skip
        self.digest = self._kept(self.manifest)["digest"]
        self.index = json.dumps({
            "schemaVersion": 2, "mediaType": f"{kind}.index.v1+json",
            "manifests": [{
                "mediaType": f"{kind}.manifest.v1+json", "digest": self.digest, "size": len(self.manifest),
                "platform": {"architecture": architecture, "os": "linux"},
            }],
        }).encode()  # fmt: skip

    def _kept(self, data: bytes) -> dict[str, Any]:
        self.blobs[_digest(data)] = data
        return {"digest": _digest(data), "size": len(data)}

    def files(self) -> dict[str, bytes]:
        named = {f"blobs/sha256/{digest.removeprefix('sha256:')}": data for digest, data in self.blobs.items()}
        return {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": self.index, **named}

    def layout(self, root: Path) -> Path:
        for name, data in self.files().items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        return root

    def oci_archive(self, path: Path) -> Path:
        path.write_bytes(packed(member(name, data) for name, data in self.files().items()))
        return path

    def docker_archive(self, path: Path) -> Path:
        """As `docker save` wrote it for years."""
        name = f"{hashlib.sha256(self.config).hexdigest()}.json"
        layers = {f"{number}/layer.tar": layer for number, layer in enumerate(self.plain)}
        saved = json.dumps([{"Config": name, "RepoTags": ["test:latest"], "Layers": list(layers)}]).encode()
        files = {name: self.config, **layers, "manifest.json": saved}
        path.write_bytes(packed(member(name, data) for name, data in files.items()))
        return path

    def unpacked(self, root: Path) -> Path:
        """A root directory, as an operator would make it."""
        root.mkdir(parents=True)
        for layer in self.plain:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                tar.extractall(root, filter="fully_trusted")
        os.chmod(root, 0o755)
        return root


def _compressed(layer: bytes, packing: Packing) -> bytes:
    if packing == "zstd":
        return subprocess.run(["zstd", "-q", "-c"], input=layer, capture_output=True, check=True).stdout
    return gzip.compress(layer, 1, mtime=0) if packing else layer


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


# An account at registries here, and its line of an htpasswd file: bcrypt is the only form that they read.
ACCOUNT = ("ann", "kept-away-7301")
_HTPASSWD = "ann:$2b$04$abcdefghijklmnopqrstuunIhJofQwjaSYtnsNX0U0iBqP0jt4GE6\n"


class LocalRegistry:
    """A real registry, Debian's docker-registry, on a port of this machine; `closed`: for readers with an account."""

    def __init__(self, root: Path, *, closed: bool = False) -> None:
        self._root = root
        self._closed = closed
        self._http = httpx.Client(auth=ACCOUNT if closed else None)
        (self.port,) = free_ports(1)
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.host}"

    def __enter__(self) -> Self:
        storage = {"filesystem": {"rootdirectory": str(self._root / "data")}, "delete": {"enabled": True}}
        config = {"version": "0.1", "log": {"level": "error"}, "storage": storage, "http": {"addr": self.host}}
        self._root.mkdir(parents=True, exist_ok=True)
        if self._closed:
            (self._root / "htpasswd").write_text(_HTPASSWD)
            config["auth"] = {"htpasswd": {"realm": "lab", "path": str(self._root / "htpasswd")}}
        # JSON is YAML too.
        (self._root / "config.yml").write_text(json.dumps(config))
        command = ["docker-registry", "serve", str(self._root / "config.yml")]
        with (self._root / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]})
        eventually(self._ready, "an answer of the registry")
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._process.kill()
        self._process.wait()

    def _ready(self) -> bool | None:
        try:
            return self._http.get(f"{self.url}/v2/").status_code == 200 or None
        except httpx.HTTPError:
            return None

    def push(self, image: Image, name: str, tag: str = "latest") -> str:
        """The image as a job names it."""
        for digest, data in image.blobs.items():
            begun = self._http.post(f"{self.url}/v2/{name}/blobs/uploads/")
            place = begun.headers["location"]
            mark = "&" if "?" in place else "?"
            assert self._http.put(f"{place}{mark}digest={digest}", content=data).status_code == 201
        for version, raw in ((image.digest, image.manifest), (tag, image.index)):
            kind = {"Content-Type": json.loads(raw)["mediaType"]}
            answer = self._http.put(f"{self.url}/v2/{name}/manifests/{version}", content=raw, headers=kind)
            assert answer.status_code == 201, answer.text
        return f"docker://{self.host}/{name}:{tag}"

    def blob(self, digest: str) -> Path:
        plain = digest.removeprefix("sha256:")
        return self._root / "data/docker/registry/v2/blobs/sha256" / plain[:2] / plain / "data"


if __name__ == "__main__":
    # For the guides: an image whose command greets.
    Image(config={"Cmd": ["echo", "hello from the image"]}).oci_archive(Path(sys.argv[1]))
