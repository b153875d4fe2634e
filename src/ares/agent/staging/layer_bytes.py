"""The bytes of an image's layer: read from the files it came in, unpacked, counted and compared with its digest.

Standard library only. What a layer says is not believed: memory and sizes are bounded. zstd is the machine's own
library, loaded before the root is left behind, so that it works in the same narrow place as everything else here.
"""

import ctypes
import gzip
import hashlib
import io
import os
from typing import Any, Final, Protocol

PIECE: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
# Frames that hold something for other readers: some programs begin with one.
_SKIPPED: Final = b"\x2a\x4d\x18"
_LIBRARY: Final = "libzstd.so.1"
# How far back a layer may refer, as a power of two: 128 MiB, the most that zstd itself writes unless it is told to.
_WINDOW_LOG_MAX: Final = 27
_WINDOW_PARAMETER: Final = 100


class Flaw(Exception):
    """Why the image cannot be unpacked, in words."""


class _Bytes(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _Pieces:
    """Files one after the other, as one. They are opened before the root is left behind."""

    def __init__(self, files: list[int]) -> None:
        self._files = files

    def read(self, size: int = -1, /) -> bytes:
        while self._files:
            if data := os.read(self._files[0], PIECE if size < 0 else min(size, PIECE)):
                return data
            os.close(self._files.pop(0))
        return b""


class _Raw(io.RawIOBase):
    def __init__(self, source: _Bytes) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class LayerBytes(_Raw):
    """A layer as it is when unpacked: what is read of it goes into a digest, and is counted."""

    def __init__(self, source: _Bytes, bytes_max: int, what: str) -> None:
        super().__init__(source)
        self._left = self._bytes_max = bytes_max
        self._what = what
        self._sha256 = hashlib.sha256()

    def readinto(self, buffer: Any) -> int:
        size = super().readinto(buffer)
        self._left -= size
        if self._left < 0:
            raise Flaw(f"{self._what} has more than {self._bytes_max:,} bytes when it is unpacked")
        self._sha256.update(buffer[:size])
        return size

    def finish(self, digest: str) -> None:
        """Reads the rest, and compares."""
        while self.read(PIECE):
            pass
        if (found := f"sha256:{self._sha256.hexdigest()}") != digest:
            raise Flaw(f"{self._what} should be {digest} when it is unpacked, and came as {found}")


# ---- zstd


class _In(ctypes.Structure):
    _fields_ = (("src", ctypes.c_char_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t))


class _Out(ctypes.Structure):
    _fields_ = (("dst", ctypes.c_void_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t))


class Zstd:
    """The machine's library. Raises OSError that says what to install when there is none."""

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL(_LIBRARY)
        except OSError:
            raise OSError(
                f"a layer is compressed with zstd, and this machine has no {_LIBRARY}: install it (Debian: libzstd1), "
                "or push the image with gzip layers"
            ) from None
        library.ZSTD_createDCtx.restype = ctypes.c_void_p
        library.ZSTD_decompressStream.restype = ctypes.c_size_t
        library.ZSTD_getErrorName.restype = ctypes.c_char_p
        self._library = library

    def reader(self, source: _Bytes) -> "_ZstdReader":
        context = self._library.ZSTD_createDCtx()
        if not context:
            raise MemoryError
        context = ctypes.c_void_p(context)
        self._library.ZSTD_DCtx_setParameter(context, _WINDOW_PARAMETER, _WINDOW_LOG_MAX)
        return _ZstdReader(self, context, source)

    def step(self, context: ctypes.c_void_p, out: _Out, given: _In) -> bool:
        """Unpacks some. True when a frame ended with it. Raises ValueError."""
        code = ctypes.c_size_t(self._library.ZSTD_decompressStream(context, ctypes.byref(out), ctypes.byref(given)))
        if self._library.ZSTD_isError(code):
            raise ValueError(f"zstd: {self._library.ZSTD_getErrorName(code).decode(errors='replace')}")
        return code.value == 0


class _ZstdReader:
    """Frames one after the other, as one. Its library's memory goes with the program, which reads one image."""

    def __init__(self, zstd: Zstd, context: ctypes.c_void_p, source: _Bytes) -> None:
        self._zstd, self._context, self._source = zstd, context, source
        self._given = _In(b"", 0, 0)
        self._room = ctypes.create_string_buffer(PIECE)
        self._whole = True

    def read(self, size: int = -1, /) -> bytes:
        wanted = PIECE if size < 0 else min(size, PIECE)
        out = _Out(ctypes.addressof(self._room), wanted, 0)
        while not out.pos:
            # What is unpacked already is handed out before more is read.
            full = self._given.pos == self._given.size
            self._whole = self._zstd.step(self._context, out, self._given) if not (full and self._whole) else True
            if not out.pos and self._given.pos == self._given.size and not self._more():
                break
        return ctypes.string_at(self._room, out.pos)

    def _more(self) -> bool:
        data = self._source.read(PIECE)
        if data:
            self._given = _In(data, len(data), 0)
        elif not self._whole:
            raise EOFError("a layer ends in the middle of what zstd packed")
        return bool(data)


def is_zstd(files: list[int]) -> bool:
    magic = os.pread(files[0], len(_ZSTD), 0) if files else b""
    return magic == _ZSTD or (magic[1:] == _SKIPPED and magic[0] >> 4 == 5)


def layer_bytes(files: list[int], zstd: Zstd | None, bytes_max: int, name: str) -> LayerBytes:
    """`zstd` is there when any of the image's layers needs it."""
    magic = os.pread(files[0], len(_GZIP), 0) if files else b""
    source: _Bytes = _Pieces(files)
    if magic == _GZIP:
        source = gzip.GzipFile(fileobj=io.BufferedReader(_Raw(source)))
    elif zstd is not None and is_zstd(files):
        source = zstd.reader(source)
    return LayerBytes(source, bytes_max, name)
