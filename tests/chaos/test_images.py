"""Nothing is left of a job in an image when its agent, its slot or the container itself is killed with SIGKILL."""

import hashlib
import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.images import Image
from tests.platform import Platform, eventually, eventually_gone

# Processes that leave their session, ignore signals, and write to the image.
SCRIPT = "trap '' TERM HUP INT; setsid sh -c 'sleep 1000; true' & sleep 1000 & touch /here; wait"
PROCESSES = 4
VICTIMS = ("agent", "slot", "container")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Platform]:
    Image().unpacked(tmp_path / "images/plain")
    with Platform(tmp_path / "site", lend=False, warm=True) as platform:
        platform.server()
        platform.agent("node-a", flags=[f"--set=node.images.roots={tmp_path}/images"])
        yield platform


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.slow])])
def test_nothing_is_left_after_sigkill(site: Platform, tmp_path: Path, rounds: int) -> None:
    for _, victim in zip(range(rounds), itertools.cycle(VICTIMS), strict=False):
        job = begun(site, tmp_path)
        main = min(site.job_processes())
        if victim == "agent":
            site.agents["node-a"].kill()
        else:
            os.kill(main if victim == "container" else parent(main), signal.SIGKILL)
        assert not eventually_gone(site.job_processes), victim
        if victim == "agent":
            # The warden removes the groups of its slots before it ends itself.
            eventually(lambda: not groups(site), "the end of all control groups", 20.0)
            assert folders(site), "what the killed agent left is what the next one removes"
            site.agent("node-a")
        ended(site, job)
        eventually(lambda: not folders(site), f"the removal of the attempt's directories after {victim}")
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(tmp_path) not in mounts
    assert sorted(path.name for path in (tmp_path / "images/plain").iterdir()) == ["bin", "etc", "home", "root", "tmp"]


def begun(site: Platform, tmp_path: Path) -> str:
    job = site.client().submit(
        command=["sh", "-c", SCRIPT], image=f"dir:{tmp_path}/images/plain", retries=0, restart="never", memory="64M",
        workdir="none",
    )  # fmt: skip
    eventually(lambda: len(site.job_processes()) >= PROCESSES, "all processes of the job")
    return job.id


def ended(site: Platform, job: str) -> None:
    eventually(lambda: site.client().get(job).state.phase in ("FAILED", "UNKNOWN"), f"the end of {job}")


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def state(site: Platform) -> Path:
    return site.directory / "nodes/agents/node-a"


def folders(site: Platform) -> list[str]:
    """Directories and layers of attempts; spare ones wait for the next attempt."""
    return [path.name for path in (state(site) / "attempts").iterdir() if not path.name.startswith("spare.")]


def groups(site: Platform) -> list[Path]:
    name = "ares-" + hashlib.sha256(os.fsencode((state(site) / "executor").resolve())).hexdigest()[:12]
    # A walk passes over what other tests remove meanwhile.
    return [Path(above) / name for above, folders, _ in os.walk("/sys/fs/cgroup") if name in folders]
