"""The Go client of the gRPC service, generated and built once, into a cache outside of the checkout."""

import hashlib
import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from grpc_tools import protoc

from tests.rpc import PROTO

SOURCE = Path(__file__).parent / "go" / "client"
# Of the whole of gRPC, on a machine that does much else.
BUILD_S = 1800
API = PROTO / "ares/v1/api.proto"


def cache() -> Path:
    return Path(os.environ.get("ARES_TEST_CACHE") or Path.home() / ".cache" / "ares-runtimes")


def go_client() -> Path:
    """The program. Where there is no Go, the test that asks for it is skipped, loudly."""
    if shutil.which("go") is None:
        pytest.skip("NO GO HERE: the generated Go client of the gRPC service was NOT built and NOT run")
    parts = (API, *(SOURCE / name for name in ("go.mod", "go.sum", "main.go")))
    digest = hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()[:16]
    program = cache() / f"go-client-{digest}"
    if not program.exists():
        _build(program)
    return program


def _build(program: Path) -> None:
    """Beside its place, and moved there when it is whole: another process may build it too."""
    program.parent.mkdir(parents=True, exist_ok=True)
    folder = program.with_name(f"{program.name}.{os.getpid()}.build")
    shutil.copytree(SOURCE, folder)
    try:
        for plugin in ("protobuf/cmd/protoc-gen-go", "grpc/cmd/protoc-gen-go-grpc"):
            _go(folder, "build", "-o", str(folder), f"google.golang.org/{plugin}")
        package = "Mares/v1/api.proto=ares.test/client/aresv1"
        given = (f"-I{PROTO}", f"-I{files('grpc_tools') / '_proto'}")
        out: list[str] = []
        for kind in ("go", "go-grpc"):
            options = f"module=ares.test/client,{package}"
            out += [f"--plugin=protoc-gen-{kind}={folder / f'protoc-gen-{kind}'}", f"--{kind}_out={options}:{folder}"]
        assert not protoc.main(("protoc", *given, *out, "ares/v1/api.proto"))
        _go(folder, "build", "-o", "client", ".")
        (folder / "client").replace(program)
    finally:
        shutil.rmtree(folder)


def _go(folder: Path, *words: str) -> None:
    done = subprocess.run(("go", *words), cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stderr
