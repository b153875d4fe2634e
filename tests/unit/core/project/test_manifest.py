"""Which manifests are taken: hostile ones are refused with a word that says why."""

from typing import Any

import msgspec
import pytest

from ares.api.projects import ENTRIES_MAX, PART_BYTES, ProjectEntry
from ares.core.project import ManifestFlaw, link_flaw, parts_of, read_manifest, write_manifest

A, B = "a" * 64, "b" * 64
MAX = 1 << 40


def read(*entries: Any, bytes_max: int = MAX) -> Any:
    return read_manifest(msgspec.json.encode({"entries": entries}), bytes_max)


def test_a_tree_is_read_back_as_it_was_written() -> None:
    entries = (
        ProjectEntry("big", "file", 0o600, PART_BYTES + 5, (A, B)),
        ProjectEntry("empty", "file"),
        ProjectEntry("src", "dir", 0o755),
        ProjectEntry("src/größe ü.py", "file", 0o755, 3, (A,)),
        ProjectEntry("src/up", "link", 0o777, link="../big"),
    )
    found = read_manifest(write_manifest(entries), MAX)
    assert found.entries == entries
    assert list(parts_of(found)) == [(A, PART_BYTES), (B, 5), (A, 3)]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (["../x", "file"], "plain names"),
        (["/etc/passwd", "file"], "plain names"),
        (["a/./b", "file"], "plain names"),
        (["a//b", "file"], "plain names"),
        (["..", "dir"], "plain names"),
        (["a\x1b[2J", "file"], "cannot be printed"),
        (["a\x00b", "file"], "cannot be printed"),
        (["x" * 256, "file"], "more than 255 bytes"),
        (["/".join(["d"] * 65), "file"], "nested 65 deep"),
        (["x/" * 600 + "x", "file"], "1,201 bytes"),
        (["no/such", "file"], "the directory it is in"),
        (["l", "link", 511, 0, [], "/etc/passwd"], "out of the project"),
        (["l", "link", 511, 0, [], "../../etc"], "out of the project"),
        (["l", "link", 511, 0, [], "a/../../b"], "out of the project"),
        (["l", "link"], "no path"),
        (["l", "link", 511, 5, [], "x"], "no bytes"),
        (["d", "dir", 493, 5], "no bytes"),
        (["f", "file", 420, 0, [], "x"], "only a link"),
        (["f", "file", 420, 5], "5 bytes have 1 parts, not 0"),
        (["f", "file", 420, 0, [A]], "0 bytes have 0 parts, not 1"),
        (["f", "file", 0o4755], "cannot be read"),
        (["f", "device"], "cannot be read"),
        (["f", "file", 420, -1], "cannot be read"),
        (["f", "file", 420, 5, ["../../x"]], "cannot be read"),
        (["f", "file", 420, 5, [A.upper()]], "cannot be read"),
    ],
)
def test_what_cannot_be_unpacked_safely_is_refused(entry: list[Any], says: str) -> None:
    with pytest.raises(ManifestFlaw, match=says):
        read(entry)


def test_a_file_below_a_link_or_a_file_is_refused() -> None:
    for kind, rest in (("link", [511, 0, [], "."]), ("file", [420])):
        with pytest.raises(ManifestFlaw, match="the directory it is in"):
            read(["d", kind, *rest], ["d/passwd", "file"])


def test_a_path_that_is_there_twice_or_out_of_order_is_refused() -> None:
    for paths in (("a", "a"), ("b", "a")):
        with pytest.raises(ManifestFlaw, match="not in order"):
            read(*([path, "file"] for path in paths))


def test_a_bomb_is_refused_by_what_it_would_unpack_to() -> None:
    # One part, named by many files: small to send, and terabytes to unpack.
    bomb = [[f"f{number:06}", "file", 420, PART_BYTES, [A]] for number in range(2000)]
    with pytest.raises(ManifestFlaw, match="bytes, the limit"):
        read(*bomb, bytes_max=10 << 30)
    with pytest.raises(ManifestFlaw, match="cannot be read"):
        read(*([f"f{number:06}", "file"] for number in range(ENTRIES_MAX + 1)))
    with pytest.raises(ManifestFlaw, match="manifest takes"):
        read_manifest(b" " * (13 << 20), MAX)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"entries": 1}', b'{"more": 1}', b'{"entries": [["a"]]}', b"\xff"])
def test_what_is_no_manifest_is_refused(raw: bytes) -> None:
    with pytest.raises(ManifestFlaw):
        read_manifest(raw, MAX)


def test_links_within_the_project_are_fine() -> None:
    for path, target in (("l", "x"), ("a/l", "../x"), ("a/b/l", "../../x/./y"), ("l", "a/../b")):
        assert link_flaw(path, target) == ""
