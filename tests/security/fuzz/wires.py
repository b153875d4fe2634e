"""What stands around requests, bent: trailers, chunks, heads that do not end, and the first bytes of handshakes."""

import random

_NAMES = (
    b"authorization",
    b"host",
    b"x-ares-tenant",
    b"content-length",
    b"transfer-encoding",
    b"x",
    b"",
    b"\x00",
    b"a b",
)
_VALUES = (
    b"Bearer ares_0_0",
    b"evil.example",
    b"other",
    b"5",
    b"chunked",
    b"",
    b"\xff" * 40,
    b"v" * 70_000,
    b"a\r\n b",
)
# Sizes of what should have an end.
_SIZES = (1, 1_000, 66_000, 300_000)


def trailers(rng: random.Random, head: bytes, body: bytes) -> bytes:
    """A request in chunks, of which something comes after the last one, or stands where a chunk should."""
    sizes = rng.choice((len(body), 1, 7))
    pieces = [body[at : at + sizes] for at in range(0, len(body), sizes)]
    chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(piece), _extension(rng), piece) for piece in pieces)
    fields = b"".join(b"%b: %b\r\n" % (rng.choice(_NAMES), rng.choice(_VALUES)) for _ in range(rng.choice((1, 2, 150))))
    ends = (
        b"0\r\n" + fields + b"\r\n",
        b"0\r\n" + fields,
        b"0\r\n" + b"x" * rng.choice(_SIZES),
        b"0\r\nx: " + b"y" * rng.choice(_SIZES),
        b"0;" + b"z" * rng.choice(_SIZES) + b"\r\n\r\n",
        b"0" * rng.choice(_SIZES) + b"\r\n\r\n",
        b"\r\n" * rng.choice(_SIZES),
    )
    return head + chunks + rng.choice(ends)


def heads(rng: random.Random, good: bytes) -> bytes:
    """A head that is long where it should be short, alone or behind another request."""
    line, _, rest = good.partition(b"\r\n")
    size = rng.choice(_SIZES)
    return rng.choice((
        good + line + b"\r\nx: " + b"y" * size,
        b"G" * size,
        line.replace(b"?", b"?" + b"q" * size) + b"\r\n" + rest,
        line + b"\r\n" + b"a:b\r\n" * (size // 5) + rest,
        line + b"\r\n" + b"\r\n ".join([b"x: y"] + [b"z"] * min(size, 2_000)) + b"\r\n" + rest,
        b"\r\n" * size + good,
        line + b"\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: " + b"k" * size + b"\r\n" + rest,
    ))  # fmt: skip


def handshake(rng: random.Random) -> bytes:
    """The beginning of a TLS handshake, or of something that is none."""
    rubbish = rng.randbytes(rng.choice((0, 1, 5, 500, 16_384)))
    length = rng.choice((len(rubbish), 0, 1, 0x4000, 0xFFFF)) & 0xFFFF
    record = bytes((rng.choice((20, 21, 22, 23, 24, 255)), 3, rng.choice((0, 1, 3, 9)))) + length.to_bytes(2, "big")
    hello = b"\x01" + rng.randrange(1 << 24).to_bytes(3, "big") + b"\x03\x03" + rubbish
    return rng.choice(
        (b"", rubbish, record + rubbish, record + hello, (record + rubbish) * 20, b"GET / HTTP/1.1\r\n\r\n")
    )


def _extension(rng: random.Random) -> bytes:
    return rng.choice((b"", b"", b"", b";a=b", b";" + b"x" * 3_000, b" "))
