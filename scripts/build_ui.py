#!/usr/bin/env python3
"""Builds the dashboard from `ui/` into the package, and stamps it with a digest of what it was built from.

python scripts/build_ui.py            after a change of `ui/`; needs Node 20 or newer. `make ui` does it
python scripts/build_ui.py --types    also writes the types of the API anew
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "ui"
STATIC = ROOT / "src" / "ares" / "edge" / "dashboard" / "static"
STAMP = STATIC / "source.sha256"
_LEFT_OUT = frozenset({"node_modules", "test"})


def source_sha256() -> str:
    """Of every file that the build depends on, by path and content."""
    digest = hashlib.sha256()
    for path in sorted(SOURCE.rglob("*")):
        name = path.relative_to(SOURCE)
        if path.is_file() and name.parts[0] not in _LEFT_OUT:
            digest.update(f"{name.as_posix()}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def node(*command: str) -> None:
    subprocess.run(["npx", "--no-install", *command], cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)


def install() -> None:
    """Exactly the locked packages, once."""
    lock = (SOURCE / "package-lock.json").read_bytes()
    want, stamp = hashlib.sha256(lock).hexdigest(), SOURCE / "node_modules" / ".ares-stamp"
    if not stamp.exists() or stamp.read_text() != want:
        # Not `npm ci`: that insists on optional packages for other kinds of machines.
        flags = ("--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
        subprocess.run(["npm", "install", *flags], cwd=SOURCE, check=True)
        stamp.write_text(want)


def build(target: Path) -> None:
    node("vite", "build", "--outDir", str(target), "--emptyOutDir", "--logLevel", "warn")


def write_types(target: Path) -> None:
    """From the OpenAPI document of this checkout."""
    from ares.edge.rest.http.openapi import document
    from ares.edge.rest.routes.routes import OPERATIONS, PATH_PARAMETERS

    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "openapi.json"
        text.write_bytes(document(OPERATIONS, PATH_PARAMETERS))
        subprocess.run(["node", "scripts/types.mjs", str(text), str(target)], cwd=SOURCE, check=True)


def main() -> int:
    if shutil.which("npm") is None:
        sys.stderr.write("Node 20 or newer is needed to build the dashboard, and none was found.\n")
        return 1
    os.environ.setdefault("npm_config_update_notifier", "false")
    install()
    if "--types" in sys.argv:
        write_types(SOURCE / "src" / "api" / "schema.d.ts")
    node("tsc", "--noEmit")
    build(STATIC)
    STAMP.write_text(source_sha256() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
