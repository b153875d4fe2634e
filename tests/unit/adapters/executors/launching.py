"""What the executor is asked to start, with usual values."""

from pathlib import Path
from typing import Any

from ares.ports.executor import Launch

TIMEOUT_S = 30.0


def launch(folder: Path, /, *argv: str, **changes: Any) -> Launch:
    defaults: dict[str, Any] = {
        "argv": argv,
        "env": {"PATH": "/usr/local/bin:/usr/bin:/bin"},
        "cwd": str(folder),
        "log_path": str(folder / "log"),
        "memory_mib": 256,
        "cpu_milli": 1000,
        "file_bytes_max": 1 << 30,
        "processes_max": 200,
        "open_files_max": 1024,
        "folders": (str(folder),),
    }
    return Launch(**(defaults | changes))
