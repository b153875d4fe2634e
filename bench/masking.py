"""(j) Taking secrets out of a job's output, against the plainest thing that finds one value."""

import base64
import time
from collections.abc import Callable
from pathlib import Path

from ares.core.secrets import Masker
from bench.report import Row
from bench.scale import Scale

_LINE = b"2026-11-16 12:00:00 epoch 12 step 120000 loss=0.4312 lr=0.0003 /data/part-0001.parquet https://host/a?b=c\n"
_PIECE = 64 * 1024
_MB = 1e6


async def rows(scale: Scale, folder: Path) -> list[Row]:
    """CPU time of one core; the output has no secret in it, as most has none."""
    count = max(1, int(64 * _MB) // len(_LINE)) if scale.queued >= 100_000 else int(4 * _MB) // len(_LINE)
    output = _LINE * count
    pieces = [output[at : at + _PIECE] for at in range(0, len(output), _PIECE)]
    one, key = _made(1), _key()
    plain = _mb_per_s(lambda piece: piece.replace(one[0], b"***"), pieces)
    cases = (("one secret", one), ("a private key of 28 lines", [key]), ("32 secrets", [key, *_made(31)]))
    return [
        Row(
            "j", f"output masked, {what}", f"{(found := _mb_per_s(Masker(values).feed, pieces)):,.0f} MB/s", found,
            f"bytes.replace of one value: {plain:,.0f} MB/s", found / plain,
            note="a core's time; without secrets output does not pass here",
        )
        for what, values in cases
    ]  # fmt: skip


def _made(count: int) -> list[bytes]:
    return [b"s3cr3t-value-%027d" % number for number in range(count)]


def _key() -> bytes:
    lines = (base64.b64encode(bytes((7 * at + line) % 256 for at in range(48))) for line in range(26))
    return b"\n".join((b"-----BEGIN PRIVATE KEY-----", *lines, b"-----END PRIVATE KEY-----\n"))


def _mb_per_s(mask: Callable[[bytes], bytes], pieces: list[bytes]) -> float:
    began = time.process_time()
    for piece in pieces:
        mask(piece)
    return sum(map(len, pieces)) / _MB / max(1e-9, time.process_time() - began)
