"""Attempts in the root of an image: what they see, what they may change, and that sessions are in it too."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import pytest

from ares.adapters.executors.local import LocalExecutor
from ares.adapters.executors.terms import SandboxTerms
from ares.ports.executor import CannotStart, Enterable, Entry, Finished, ImageFiles, Running
from tests.images import Image, busybox, link
from tests.ports import free_ports
from tests.unit.adapters.executors.launching import TIMEOUT_S, launch

UID = 1_879_048_190 if os.geteuid() == 0 else None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return owned(Image([busybox()]).unpacked(tmp_path_factory.mktemp("image") / "root"))


def owned(root: Path) -> Path:
    for path in (root, *root.rglob("*")):
        if UID is not None:
            os.lchown(path, UID, UID)
    return root


@pytest.fixture
async def executor(tmp_path: Path) -> AsyncIterator[LocalExecutor]:
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "lib.so").write_text("of the machine")
    executor = LocalExecutor(tmp_path / "state", terms=SandboxTerms(uid=UID, in_images=(str(shown),)))
    await executor.open()
    yield executor
    await executor.close()


def begun(
    executor: LocalExecutor, root: Path, tmp_path: Path, *argv: str, name: str = "one", workdir: str = ""
) -> Awaitable[Running | CannotStart]:
    attempt = tmp_path / "attempts" / name
    (attempt / "work").mkdir(parents=True)
    layer = tmp_path / "attempts" / f"{name}.layer"
    layer.mkdir()
    asked = launch(
        attempt, *argv, cwd=workdir or str(attempt / "work"), uid=UID, owner="t", env={"PATH": "/bin"},
        image=ImageFiles(str(root), str(layer), "/root", workdir),
    )  # fmt: skip
    return executor.start(asked)


async def ended(running: Running | CannotStart) -> Finished:
    assert not isinstance(running, CannotStart), running
    finished: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
    running.on_finished(lambda end: None if finished.done() else finished.set_result(end))
    return await asyncio.wait_for(finished, TIMEOUT_S)


async def said(executor: LocalExecutor, root: Path, tmp_path: Path, script: str, name: str = "one") -> list[str]:
    finished = await ended(await begun(executor, root, tmp_path, "sh", "-c", script, name=name))
    log = (tmp_path / "attempts" / name / "log").read_text()
    assert finished.code == 0, log
    return log.splitlines()


async def test_it_sees_the_image_and_its_own_files_only(executor: LocalExecutor, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the machine")
    script = f"""
    ls / | grep -c usr; cat {tmp_path}/secret 2>&1 | grep -c 'No such'; ls {tmp_path}/attempts
    cat {tmp_path}/shown/lib.so; echo; touch {tmp_path}/shown/x 2>&1 | grep -c Read-only
    ls /dev | grep -c -E 'sd|vd|mem|kmsg'; test -c /dev/null && echo devices; id -un; pwd
    (echo x > /proc/sys/kernel/hostname) 2>&1 || echo kept; mount -t tmpfs none /home 2>/dev/null || echo no mounts
    """
    found = await said(executor, root, tmp_path, script)
    assert found[:7] == ["0", "1", "one", "of the machine", "1", "0", "devices"]
    assert found[7:9] == ["ares", str(tmp_path / "attempts/one/work")]
    assert found[-1] == "no mounts"
    assert "kept" in found


async def test_what_it_changes_stays_with_it(executor: LocalExecutor, root: Path, tmp_path: Path) -> None:
    before = _names(root)
    changes = "touch /new /bin/more; rm /bin/nc; echo line >> /etc/passwd; ls /bin | grep -c -E '^(nc|more)$'"
    assert await said(executor, root, tmp_path, changes) == ["1"]
    assert await said(executor, root, tmp_path, "ls / /bin | grep -c -E '^(nc|more|new)$'", "two") == ["1"]
    assert _names(root) == before


def _names(root: Path) -> list[str]:
    return sorted(str(path) for path in root.rglob("*"))


async def test_the_directory_to_start_in_is_made(executor: LocalExecutor, root: Path, tmp_path: Path) -> None:
    running = await begun(executor, root, tmp_path, "sh", "-c", "pwd; touch it && echo mine", workdir="/srv/app")
    assert (await ended(running)).code == 0
    assert (tmp_path / "attempts/one/log").read_text() == "/srv/app\nmine\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that belongs to another user")
async def test_a_setuid_program_and_a_device_file_do_nothing(executor: LocalExecutor, tmp_path: Path) -> None:
    root = Image([busybox()]).unpacked(tmp_path / "root")
    (root / "bin/busybox").chmod(0o4755)
    os.mknod(root / "disk", stat.S_IFBLK | 0o666, os.stat("/").st_dev)
    script = "id -u; cat /disk 2>&1 | grep -c -E 'denied|No such|not permitted'"
    assert await said(executor, root, tmp_path, script) == [str(UID), "1"]


@pytest.mark.parametrize("place", ["proc", "dev", "sys"])
async def test_a_link_in_place_of_kernel_files_is_refused(executor: LocalExecutor, tmp_path: Path, place: str) -> None:
    """A job could turn it elsewhere later, and the slot would follow."""
    root = owned(Image([[*busybox(), link(place, "/tmp")]]).unpacked(tmp_path / "root"))
    answer = await begun(executor, root, tmp_path, "true")
    assert isinstance(answer, CannotStart)
    assert f"{place!r} on the way there is a link or a file" in answer.message


async def test_a_list_of_users_that_is_a_link_is_not_read(executor: LocalExecutor, tmp_path: Path) -> None:
    """It could lead to what only the slot may read, such as its own environment."""
    layer = [*(entry for entry in busybox() if entry[0].name != "etc/passwd"), link("etc/passwd", "/proc/1/environ")]
    root = owned(Image([layer]).unpacked(tmp_path / "root"))
    (line,) = await said(executor, root, tmp_path, "cat /etc/passwd")
    assert line.startswith("ares:x:")


async def test_sessions_are_in_the_image(executor: LocalExecutor, root: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    script = f"touch /here; exec busybox httpd -f -p 127.0.0.1:{port} -h /"
    running = await begun(executor, root, tmp_path, "sh", "-c", script)
    assert not isinstance(running, CannotStart), running
    assert isinstance(running, Enterable)
    work = str(tmp_path / "attempts/one/work")

    async def output(entry: Entry) -> tuple[bytes, int | None]:
        assert isinstance(running, Enterable)
        entered = await running.enter(entry)
        assert not isinstance(entered, CannotStart), entered
        entered.end_input()
        got = b""
        while data := (await entered.read())[1]:
            got += data
        code = await entered.exit_code() if not entry.port else None
        entered.hang_up()
        return got, code

    async with asyncio.timeout(TIMEOUT_S):
        while (await output(Entry(argv=("ls", "/here"), env={"PATH": "/bin"}, cwd=work)))[1]:
            await asyncio.sleep(0.05)
        tried = "import os, sys; os.write(1, repr((os.path.exists('/here'), os.getuid(), sys.argv[1:])).encode())"
        found, code = await output(Entry(argv=("a", "b"), script=tried, cwd=work))
        assert (found, code) == (repr((True, UID or os.getuid(), ["a", "b"])).encode(), 0)
        failing = "import os; open('/etc/none')"
        assert (await output(Entry(script=failing, cwd=work)))[1] == 1
        while isinstance(web := await running.enter(Entry(port=port)), CannotStart):
            await asyncio.sleep(0.05)
        await web.write(b"GET /etc/passwd HTTP/1.0\r\n\r\n")
        assert b"200 OK" in (await web.read())[1]
        web.hang_up()
    running.kill()
    assert (await ended(running)).signal == 9
