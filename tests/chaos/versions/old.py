"""An earlier version of this project, taken from its own history, run by the same interpreter and packages."""

import io
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# The end of the issue before outputs, timing and the world simulator came.
OLD = "dd6e734"
MISSING = (
    f"NOT TESTED: the history of this checkout does not have commit {OLD}, the earlier version to run beside this one. "
    "Fetch all of it: git fetch --unshallow"
)


def available() -> bool:
    asked = ["git", "-C", str(ROOT), "cat-file", "-e", f"{OLD}^{{commit}}"]
    try:
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def export(directory: Path) -> Path:
    """The folder to put on PYTHONPATH, ahead of what is installed."""
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", OLD, "src"], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            # Ours, but regular files only all the same.
            if member.isfile():
                source = files.extractfile(member)
                assert source is not None
                path = directory / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(source.read())
    return directory / "src"
