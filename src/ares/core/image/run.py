"""How a job runs in an image: as `docker run` would, within what Ares sets."""

from collections.abc import Mapping, Sequence

import msgspec

from ares.core.image.layout import RunConfig
from ares.core.image.reference import ImageFlaw

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Of the machine rather than of the job: an image has its own.
_OF_THE_MACHINE = ("PATH", "LANG", "LC_ALL", "HOME", "TMPDIR")
_PYTHON_PATH = "PYTHONPATH"
_THREADS = "OMP_NUM_THREADS"


class ImageUser(msgspec.Struct, frozen=True):
    """The user that the image names. The job's processes are the tenant's all the same, who owns the image's files."""

    name: str = ""
    home: str = "/"


def argv_of(config: RunConfig, command: Sequence[str]) -> tuple[str, ...]:
    """The image's entry point with the job's command, or with its own where the job has none. Raises ImageFlaw."""
    argv = (*(config.entrypoint or ()), *(command or config.cmd or ()))
    if not argv or not argv[0]:
        raise ImageFlaw("the job names no command, and the image has none of its own: write one after --")
    return argv


def environment_of(
    config: RunConfig, user: ImageUser, given: Mapping[str, str], asked: Mapping[str, str]
) -> dict[str, str]:
    """The image's variables, then the job's and Ares'. `given`: what the job would have without an image. `asked`: what
    it asks for itself."""
    own = dict(pair.split("=", 1) for pair in config.env or () if "=" in pair[1:] and "\x00" not in pair)
    base = {"PATH": DEFAULT_PATH, "HOME": user.home} | own
    kept = {name: value for name, value in given.items() if name in asked or name not in _OF_THE_MACHINE}
    if _THREADS in own and _THREADS not in asked:
        kept.pop(_THREADS, None)
    if _PYTHON_PATH in own and _PYTHON_PATH in kept and _PYTHON_PATH not in asked:
        kept[_PYTHON_PATH] = f"{own[_PYTHON_PATH]}:{kept[_PYTHON_PATH]}"
    return base | kept


def workdir_of(config: RunConfig) -> str:
    """The directory to start in, by the image; empty when it names none."""
    path = config.workdir or ""
    if path and (not path.startswith("/") or ".." in path.split("/")):
        raise ImageFlaw(f"it wants to start in {path[:200]!r}, which is no directory written out in full")
    return "" if path.strip("/") == "" else path
