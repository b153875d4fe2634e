"""A directory as a project: what is read again, what is asked, what is said."""

import os
from pathlib import Path

import msgspec
import pytest

from ares.api.projects import PART_BYTES, ProjectManifest
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.project import digests
from ares.edge.client.project.pack import TooMuch, default_directory, directory_of, pack, size_text
from ares.edge.client.project.scan import not_a_project

LONG_AGO_NS = 1_000_000_000


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    # The inode's own time cannot be set back: here every file counts as settled.
    monkeypatch.setattr(digests, "_SETTLED_NS", -LONG_AGO_NS)
    return path


def read_of(root: Path) -> int:
    """Bytes that packing reads."""
    sizes = list[int]()
    pack(root, on_bytes=sizes.append)
    return sum(sizes)


def test_only_files_that_changed_are_read_again(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.py").write_text("x" * 10)
    assert read_of(tmp_path) == 200
    assert read_of(tmp_path) == 0
    (tmp_path / "3.py").write_text("y" * 10)
    assert read_of(tmp_path) == 10
    os.replace(tmp_path / "4.py", tmp_path / "5.py")
    assert read_of(tmp_path) == 10


def test_a_file_changed_just_now_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_SETTLED_NS", 3_600_000_000_000)
    (tmp_path / "a").write_text("abc")
    assert read_of(tmp_path) == 3
    assert read_of(tmp_path) == 3


def test_a_damaged_memory_costs_time_only(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "a").write_text("abc")
    read_of(tmp_path)
    (file,) = (cache / "ares/digests").iterdir()
    file.write_bytes(b"nonsense")
    assert read_of(tmp_path) == 3


def test_modes_links_and_empty_directories_are_kept(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("x")
    (tmp_path / "run").chmod(0o4755)
    (tmp_path / "empty").mkdir(mode=0o750)
    (tmp_path / "link").symlink_to("run")
    (tmp_path / "out").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    packed = pack(tmp_path)
    found = msgspec.json.decode(packed.manifest, type=ProjectManifest).entries
    assert [(entry.path, entry.kind, entry.mode & 0o777) for entry in found] == [
        ("empty", "dir", 0o750), ("link", "link", 0o777), ("run", "file", 0o755),
    ]  # fmt: skip
    assert set(packed.warnings) == {
        "left out, because a link leads out of the project: out",
        "left out, because it is no plain file: pipe",
    }


@pytest.mark.parametrize("name", [".env", "id_rsa", "server.pem", "credentials", ".netrc", ".env.local", "tls.key"])
def test_what_looks_like_a_secret_is_warned_about(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    (warning,) = pack(tmp_path).warnings
    assert name in warning
    assert "ares secret" in warning


def test_what_only_sounds_like_one_is_not(tmp_path: Path) -> None:
    for name in (".env.example", "environment.py", "keys.py", "pem.txt"):
        (tmp_path / name).write_text("x")
    assert pack(tmp_path).warnings == ()


def test_a_large_directory_is_asked_about_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"x" * 3000)
    (tmp_path / "code.py").write_text("x")
    with pytest.raises(InvalidSpec, match=r"2 new files of 2\.9 KiB.*data\.bin \(2\.9 KiB\)") as refused:
        pack(tmp_path, limit=1000)
    assert ".aresignore" in refused.value.fix
    assert "--workdir none" in refused.value.fix
    asked = list[TooMuch]()

    def no(much: TooMuch) -> bool:
        asked.append(much)
        return False

    with pytest.raises(InvalidSpec):
        pack(tmp_path, limit=1000, ask=no)
    assert (asked[0].files, asked[0].size) == (2, 3001)
    pack(tmp_path, limit=1000, ask=lambda _: True)
    # They are known now: nothing is read, so nothing is asked.
    pack(tmp_path, limit=1000)


def test_a_large_file_is_parts_that_are_found_again(tmp_path: Path) -> None:
    first, second = os.urandom(PART_BYTES), b"tail"
    (tmp_path / "big").write_bytes(first + second)
    (tmp_path / "tail").write_bytes(second)
    packed = pack(tmp_path)
    entry, _ = msgspec.json.decode(packed.manifest, type=ProjectManifest).entries
    assert len(entry.parts) == 2
    assert len(packed.places) == 2
    bodies = [packed.body(some) for some in packed.requests(packed.places)]
    assert b"".join(bodies) == PART_BYTES.to_bytes(4) + first + (4).to_bytes(4) + second


def test_a_file_that_shrinks_while_it_is_sent_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("abcdef")
    packed = pack(tmp_path)
    (tmp_path / "a").write_text("abc")
    with pytest.raises(InvalidSpec, match="a changed while it was shipped"):
        packed.body(packed.places)
    with pytest.raises(InvalidSpec, match="a changed while it was shipped"):
        packed.check(tuple(packed.places), ("0" * 64,))


def test_home_and_root_are_no_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home" / "ann"
    project = home / "project"
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ARES_SHIP", "")
    assert "your home directory" in not_a_project(home)
    assert "holds your home" in not_a_project(home.parent)
    assert not_a_project(Path("/"))
    assert "of the system" in not_a_project(Path("/etc"))
    assert not_a_project(project) == ""
    monkeypatch.chdir(project)
    assert default_directory() == (project, "")
    monkeypatch.chdir(home)
    assert default_directory()[0] is None
    monkeypatch.setenv("ARES_SHIP", "never")
    monkeypatch.chdir(project)
    assert default_directory() == (None, "")


def test_a_directory_that_is_named_must_be_there(tmp_path: Path) -> None:
    assert directory_of("none") is None
    assert directory_of(None) is None
    assert directory_of(tmp_path) == tmp_path.resolve()
    with pytest.raises(InvalidSpec, match="is no directory here") as refused:
        directory_of(tmp_path / "nope")
    assert "chdir" in refused.value.fix


def test_sizes_in_words() -> None:
    assert [size_text(size) for size in (0, 1023, 1024, 5 << 20, 3 << 30)] == [
        "0 B", "1,023 B", "1.0 KiB", "5.0 MiB", "3.0 GiB",
    ]  # fmt: skip
