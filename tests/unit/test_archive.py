"""The stream of `ares cp`: what it carries, and what it refuses of a stream that an attacker wrote."""

import hashlib
import json
import os
import stat
import struct
from pathlib import Path
from typing import Any

import pytest

from ares.archive import HEADER_BYTES_MAX, BadArchive, Unpacking, pack
from ares.edge.cli.session import local_name


def entry(**fields: Any) -> bytes:
    data = json.dumps(fields).encode()
    return struct.pack(">I", len(data)) + data


def file(path: str, data: bytes, **more: Any) -> bytes:
    return entry(path=path, kind="file", mode=0o644, size=len(data), **more) + data + hashlib.sha256(data).digest()


ROOT = entry(path="", kind="dir", mode=0o755, name="root")


def unpack(stream: bytes, target: Path, name: str = "") -> None:
    unpacking = Unpacking(str(target), name)
    try:
        # One byte at a time: nothing may depend on how the stream is cut.
        for at in range(len(stream)):
            unpacking.feed(stream[at : at + 1])
        unpacking.finish()
    finally:
        unpacking.close()


def test_tree_arrives_as_it_was(tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "a" / "b").mkdir(parents=True)
    (here / "a" / "b" / "run").write_bytes(b"#!/bin/sh\n")
    (here / "a" / "b" / "run").chmod(0o751)
    (here / "empty").touch()
    (here / "near").symlink_to("a/b/run")
    (here / "a" / "up").symlink_to("../empty")
    (here / "a" / "out").symlink_to("../../elsewhere")
    os.mkfifo(here / "pipe")
    left_out = list[str]()
    unpack(b"".join(pack(str(here), left_out.append)), tmp_path / "there")
    there = tmp_path / "there"
    assert left_out == ["a/out", "pipe"]
    assert (there / "a" / "b" / "run").read_bytes() == b"#!/bin/sh\n"
    assert stat.S_IMODE((there / "a" / "b" / "run").stat().st_mode) == 0o751
    assert (os.readlink(there / "near"), os.readlink(there / "a" / "up")) == ("a/b/run", "../empty")
    assert sorted(path.name for path in there.rglob("*")) == ["a", "b", "empty", "near", "run", "up"]


def test_file_goes_to_its_name_or_into_a_directory(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("text")
    stream = b"".join(pack(str(tmp_path / "one"), list[str]().append))
    unpack(stream, tmp_path / "two")
    (tmp_path / "folder").mkdir()
    unpack(stream, tmp_path / "folder")
    assert (tmp_path / "two").read_text() == (tmp_path / "folder" / "one").read_text() == "text"


def test_name_on_the_users_machine_is_the_one_asked_for(tmp_path: Path) -> None:
    hostile = file("", b"x", name=".bashrc") + entry(kind="end", entries=1)
    unpack(hostile, tmp_path, local_name("out/model.pt"))
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]
    named = [local_name(remote) for remote in ("", ".", "..", "/", "a/..", "results/", "/tmp/data")]
    assert named == ["copy", "copy", "copy", "copy", "copy", "results", "data"]


def test_directory_does_not_take_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("text")
    for target, name in ((tmp_path / "mine", ""), (tmp_path, "mine")):
        with pytest.raises(BadArchive, match="is a file, and a directory came"):
            unpack(ROOT + entry(kind="end", entries=1), target, name)
    assert (tmp_path / "mine").read_text() == "text"


@pytest.mark.parametrize(
    "hostile",
    [
        file("../out", b"x"),
        file("/etc/out", b"x"),
        file("a/../../out", b"x"),
        file("a//b", b"x"),
        file("missing/inside", b"x"),
        entry(path="link", kind="link", target="/etc/passwd"),
        entry(path="link", kind="link", target="../.."),
        entry(path="link", kind="link", target=""),
        entry(path="inside", kind="link", target="."),
        entry(path="node", kind="device", mode=0o666),
        entry(path="node", kind="fifo"),
        entry(path="x" * 5000, kind="dir"),
        entry(path="/".join("d" * 200), kind="dir"),
        entry(path="big", kind="file", size=1 << 60),
        entry(path="big", kind="file", size=-1),
        entry(path="big", kind="file", size="1"),
        entry(path=["a"], kind="dir"),
        struct.pack(">I", HEADER_BYTES_MAX + 1),
        struct.pack(">I", 0),
        struct.pack(">I", 5) + b"nojso",
        struct.pack(">I", 2) + b"[]",
        file("ok", b"x")[:-1] + b"\0",
        entry(kind="end", entries=5),
        entry(kind="end", entries=1) + b"more",
    ],
)
def test_stream_that_climbs_or_lies_is_refused(tmp_path: Path, hostile: bytes) -> None:
    target = tmp_path / "jail" / "target"
    (tmp_path / "jail").mkdir()
    through = file("inside/escaped", b"x") if b'"inside"' in hostile else b""
    with pytest.raises(BadArchive):
        unpack(ROOT + hostile + through + entry(kind="end", entries=2), target)
    found = [path for path in tmp_path.rglob("*") if path.name not in ("jail", "target", "inside")]
    assert found == [], found


def test_link_that_was_there_before_is_not_followed(tmp_path: Path) -> None:
    target, outside = tmp_path / "target", tmp_path / "outside"
    target.mkdir()
    outside.mkdir()
    (target / "root").mkdir()
    (target / "root" / "sub").symlink_to(outside)
    with pytest.raises(BadArchive, match="no directory"):
        unpack(ROOT + file("sub/file", b"x") + entry(kind="end", entries=2), target)
    assert list(outside.iterdir()) == []


def test_half_a_stream_leaves_no_half_a_file(tmp_path: Path) -> None:
    stream = ROOT + file("data", b"x" * 1000) + entry(kind="end", entries=2)
    with pytest.raises(BadArchive, match="ended before"):
        unpack(stream[:-200], tmp_path / "target")
    assert list((tmp_path / "target").iterdir()) == []
