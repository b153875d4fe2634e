"""What a process holds and what it has counted, read from outside."""

import re
import urllib.request
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.platform import Platform
from tests.servers import EtcdServer

_SAMPLE = re.compile(r"^(\w+)(?:\{([^}]*)\})? ([0-9.e+-]+)$")


@dataclass(frozen=True)
class Held:
    """Memory in MiB, now and at its highest, and open files."""

    rss: float
    peak: float
    files: int


def held(pid: int) -> Held:
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    status = {words[0]: words[1] for words in lines if len(words) > 1}
    return Held(
        int(status["VmRSS:"]) / 1024, int(status["VmHWM:"]) / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir()))
    )


def counted(platform: Platform, name: str, number: int = 0) -> Counter[str]:
    """The samples of one metric of a replica, by their label's value."""
    found: Counter[str] = Counter()
    for line in platform.metrics(number):
        match = _SAMPLE.match(line)
        if match and match[1] == name:
            found[(match[2] or '""').split('"')[1]] += int(float(match[3]))
    return found


def store_calls(etcd: EtcdServer) -> int:
    """Reads and transactions that etcd was sent so far, as it counts them itself."""
    with urllib.request.urlopen(f"http://{etcd.endpoint}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        int(float(line.rsplit(" ", 1)[1]))
        for line in lines
        if line.startswith("grpc_server_started_total") and re.search(r'grpc_method="(Range|Txn)"', line)
    )
