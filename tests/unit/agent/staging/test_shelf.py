"""Built environments on a node's disk: complete or not there, and the longest unused make room."""

import os
from pathlib import Path

from ares.agent.staging.shelf import EnvironmentShelf


def build(shelf: EnvironmentShelf, tenant: str, key: str, size: int) -> str:
    folder = shelf.folder(tenant, key)
    shelf.begin(folder, None)
    os.mkdir(f"{folder}/env")
    Path(f"{folder}/env/lib").write_bytes(os.urandom(size))
    Path(f"{folder}/src/requirements.txt").write_text("x")
    shelf.seal(folder)
    return folder


def test_the_longest_unused_makes_room_unless_it_is_in_use(tmp_path: Path) -> None:
    in_use = set[str]()
    shelf = EnvironmentShelf(tmp_path, 500_000, lambda: in_use)
    first, second = build(shelf, "a", "one", 200_000), build(shelf, "b", "two", 200_000)
    assert os.listdir(first) == ["env"]
    for number, folder in enumerate((first, second)):
        os.utime(f"{folder}.built", (number, number))
    in_use.add(f"{first}/env")
    third = build(shelf, "a", "three", 200_000)
    assert [shelf.known(folder) for folder in (first, second, third)] == [True, False, True]
    assert not os.path.exists(second)


def test_one_that_is_too_large_is_not_kept(tmp_path: Path) -> None:
    shelf = EnvironmentShelf(tmp_path, 100_000, set)
    folder = build(shelf, "a", "one", 300_000)
    assert not shelf.known(folder)
    assert not os.path.exists(folder)


def test_what_was_not_finished_is_removed_at_the_next_start(tmp_path: Path) -> None:
    shelf = EnvironmentShelf(tmp_path, 1 << 30, set)
    whole, half = build(shelf, "a", "one", 10), shelf.folder("a", "two")
    shelf.begin(half, None)
    again = EnvironmentShelf(tmp_path, 1 << 30, set)
    again.open()
    assert (again.known(whole), again.known(half), os.path.exists(half)) == (True, False, False)
