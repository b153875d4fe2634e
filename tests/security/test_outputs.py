"""What a hostile job leaves as its output: the agent, which may read more than the job, is not to be led astray."""

import os
from pathlib import Path

import pytest

from ares.agent.files.outputs import collect_now, opened

BYTES_MAX = 1 << 20


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("of the agent")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "outputs"
    path.mkdir()
    return path


def test_a_file_swapped_for_a_link_while_others_are_read_is_not_followed(root: Path, secret: Path) -> None:
    """N25: between the list and the reading, by what is still able to: a file, and a directory on the way to one."""
    for swapped in ("b", "c"):
        for name in ("a", "b", "c/d"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(name)

        def swap(name: str = swapped) -> bool:
            victim = root / name
            if victim.is_dir() and not victim.is_symlink():
                (victim / "d").unlink()
                victim.rmdir()
                victim.symlink_to(secret.parent)
                (secret.parent / "d").write_text("of the agent")
            elif not victim.is_symlink():
                victim.unlink()
                victim.symlink_to(secret)
            return True

        found = collect_now(str(root), BYTES_MAX, swap)
        assert found.found == ()
        assert "symbolic link" in found.trouble or "Not a directory" in found.trouble
        (root / swapped).unlink()


def test_a_file_swapped_after_it_was_read_is_not_sent(root: Path, secret: Path) -> None:
    """N17: opening what is to be sent follows no link either."""
    (root / "a").write_text("mine")
    found = collect_now(str(root), BYTES_MAX, lambda: True)
    assert [one.file.path for one in found.found] == ["a"]
    (root / "a").unlink()
    (root / "a").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic links"), opened(str(root), "a"):
        pytest.fail("a link was followed")


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: needs files of two users. Run it as root.")
def test_a_second_name_of_another_users_file_is_refused(root: Path, secret: Path) -> None:
    """N17: where the kernel lets a job make one."""
    os.chown(root, 4321, 4321)
    os.link(secret, root / "x")
    found = collect_now(str(root), BYTES_MAX, lambda: True)
    assert "another user's file" in found.trouble
    (root / "x").unlink()
    # Its own files may have as many names as it likes.
    (root / "y").write_text("mine")
    os.chown(root / "y", 4321, 4321)
    os.link(root / "y", root / "z")
    assert len(collect_now(str(root), BYTES_MAX, lambda: True).found) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can make a device. Run it as root.")
def test_a_device_is_no_output(root: Path) -> None:
    os.mknod(root / "disk", 0o060600, os.makedev(1, 1))
    assert "is a device" in collect_now(str(root), BYTES_MAX, lambda: True).trouble
