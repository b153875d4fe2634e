"""Layers that zstd packed, byte for byte, and what is refused of them."""

import hashlib
import io
import os
import subprocess
from pathlib import Path

import pytest

from ares.agent.staging import layer_bytes as layers
from ares.agent.staging.layer_bytes import Zstd, is_zstd, layer_bytes

SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00more"


def zstd(data: bytes, *flags: str) -> bytes:
    return subprocess.run(["zstd", "-q", "-c", *flags], input=data, capture_output=True, check=True).stdout


def unpacked(tmp_path: Path, *parts: bytes, bytes_max: int = 1 << 30) -> bytes:
    files = list[int]()
    for number, part in enumerate(parts):
        (tmp_path / f"{number}").write_bytes(part)
        files.append(os.open(tmp_path / f"{number}", os.O_RDONLY))
    assert is_zstd(files)
    layer = layer_bytes(files, Zstd(), bytes_max, "layer 1")
    plain = io.BufferedReader(layer, 1000).read()
    layer.finish(f"sha256:{hashlib.sha256(plain).hexdigest()}")
    return plain


@pytest.mark.parametrize("size", [0, 1, 999, 1 << 20, (3 << 20) + 7])
def test_what_was_packed_comes_out(tmp_path: Path, size: int) -> None:
    data = os.urandom(size // 2) + bytes(size - size // 2)
    packed = zstd(data)
    assert unpacked(tmp_path, packed) == data
    # However it is cut into files, and with frames one after the other, some of them for other readers.
    assert unpacked(tmp_path, packed[:7], packed[7:], SKIPPED, zstd(data, "-19")) == data + data
    assert unpacked(tmp_path, SKIPPED + packed) == data


def test_what_is_cut_or_changed_is_refused(tmp_path: Path) -> None:
    packed = zstd(os.urandom(5000))
    with pytest.raises(EOFError, match="in the middle"):
        unpacked(tmp_path, packed[:-9])
    with pytest.raises(ValueError, match="zstd: "):
        unpacked(tmp_path, packed[:6] + b"\xff" * 20 + packed[26:])
    with pytest.raises(ValueError, match="zstd: "):
        unpacked(tmp_path, packed, b"no frame")


def test_bytes_are_counted_before_they_are_used(tmp_path: Path) -> None:
    with pytest.raises(layers.Flaw, match="more than 1,000,000 bytes when it is unpacked"):
        unpacked(tmp_path, zstd(bytes(20 << 20)), bytes_max=1_000_000)


def test_memory_is_bounded(tmp_path: Path) -> None:
    """A frame that refers back by 2 GiB: the memory for it is not taken."""
    with pytest.raises(ValueError, match="too much memory"):
        unpacked(tmp_path, zstd(bytes(1 << 20), "--ultra", "--long=31"))


def test_a_machine_without_the_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_LIBRARY", "libzstd-that-is-not-here.so.1")
    with pytest.raises(OSError, match=r"install it \(Debian: libzstd1\), or push the image with gzip layers"):
        Zstd()
