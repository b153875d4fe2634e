"""`ares.job` for every job, whatever its Python: a package of few modules on PYTHONPATH, standard library only."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Final

# A job's own installation of Ares has more than this, so it goes before: it takes the place of this package.
_PACKAGE: Final = '''"""What jobs need of Ares. An installation of Ares, if this Python has one, takes its place."""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_whole = PathFinder.find_spec("ares", [path for path in sys.path if os.path.abspath(path or ".") != _here])
if _whole is not None and _whole.loader is not None and _whole.origin is not None:
    sys.modules["ares"] = module_from_spec(_whole)
    _whole.loader.exec_module(sys.modules["ares"])
else:
    from ares import job
'''


def python_path(state_dir: Path) -> str:
    """Writes the package. Returns the directory that is to be on PYTHONPATH."""
    found = find_spec("ares.job")
    assert found is not None, "the agent is part of Ares"
    assert found.origin is not None, "it is a file"
    root = state_dir / "python"
    package = root / "ares"
    package.mkdir(parents=True, exist_ok=True)
    source = Path(found.origin).parent
    # What a module imports is there before it.
    modules = [(name, (source / name).read_text()) for name in ("job_checkpoints.py", "job.py")]
    for name, text in (*modules, ("__init__.py", _PACKAGE)):
        draft = package / f".{name}.{os.getpid()}"
        draft.write_text(text)
        draft.chmod(0o444)
        draft.rename(package / name)
    for folder in (root, package):
        folder.chmod(0o755)
    return str(root)
