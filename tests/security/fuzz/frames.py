"""Frames that an enrolled but hostile agent sends: lies within the bounds, values far outside of them, and rubbish.

The same seed makes the same frames.
"""

import math
import random
from collections.abc import Callable
from typing import Any

import msgspec

ODD_NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.1, -0.0, 1e308, 5e-324, math.nan, math.inf,
    -math.inf,
)  # fmt: skip
ODD_TEXTS = ("", "\x00", "\x1b[2J", "../../etc/passwd", "🙂" * 300, "A" * 70_000, "n1", "system", "\n", "é" * 200)
# Kinds of frames that are as large as can be.
_HUGE = 5
ODD_VALUES: tuple[Any, ...] = (None, True, [], {}, [[]], {"": ""}, b"", b"\xff" * 5000, "x", 7)


def _deep(depth: int) -> msgspec.Raw:
    """Lists in lists, deeper than an encoder would go."""
    return msgspec.Raw(b"\x91" * depth + b"\x01")


class Hostile:
    """What a node called `name` may dream up. `job` is a real one, on another node."""

    def __init__(self, name: str, job: str, tenant: str, seed: int) -> None:
        self._name, self._job, self._tenant = name, job, tenant
        self._rng = random.Random(seed)
        # The largest come first, each once: what a server takes for them is not taken for growth.
        self._first = list(range(_HUGE))

    def hello(self) -> dict[str, Any]:
        """One that is let in: it says nothing wrong but may be as large as a node's record can be."""
        rng = self._rng
        info: dict[str, Any] = {"name": self._name, "cpuMilli": 0, "memoryMib": 0}
        if rng.random() < 0.02:
            info |= {
                "cpuMilli": 10**9,
                "memoryMib": 1 << 40,
                "labels": {f"key-{n}": "v" * 200 for n in range(256)},
                "gpus": [{"index": n, "uuid": f"u{n}", "model": f"m{n}", "memoryMib": 1 << 40} for n in range(1024)],
                "gpuLinks": [["NV18"] * 60] * 60,
                "taints": [{"key": "hostile"}],
            }
        elif rng.random() < 0.2:
            # Another machine each time: what it is called by, and how its GPUs are linked.
            words = [f"NV{rng.randrange(1, 19)}" for _ in range(8)]
            info |= {name: f"{name}-{rng.getrandbits(64):x}" for name in ("region", "zone", "rack", "pool")}
            info |= {
                "gpus": [
                    {"index": n, "uuid": f"u{n}", "model": f"m{rng.getrandbits(32)}", "memoryMib": 1} for n in range(8)
                ],
                "gpuLinks": [words] * 8,
                "labels": {f"key-{rng.getrandbits(32)}": f"{rng.getrandbits(64):x}" for _ in range(8)},
            }
        return {"type": "hello", "info": info}

    def next(self) -> bytes:
        if self._first:
            return self._huge(self._first.pop())
        kind: Callable[[], bytes]
        (kind,) = self._rng.choices((self._lie, self._bent, self._rubbish, self._huge), (55, 35, 8, 2))
        return kind()

    # ---- kinds

    def _lie(self) -> bytes:
        return msgspec.msgpack.encode({"messages": [self._message() for _ in range(self._rng.choice((1, 1, 3, 40)))]})

    def _bent(self) -> bytes:
        message = self._message()
        for _ in range(self._rng.randint(1, 3)):
            message = self._bend(message)
        return msgspec.msgpack.encode({"messages": [message]})

    def _rubbish(self) -> bytes:
        raw = bytearray(self._lie())
        for _ in range(self._rng.randint(1, 5)):
            at = self._rng.randrange(len(raw) + 1)
            if self._rng.random() < 0.3:
                del raw[at:]
            else:
                raw[at:at] = bytes(self._rng.randrange(256) for _ in range(self._rng.randint(1, 9)))
        return bytes(raw) or b"\xc1"

    def _huge(self, which: int | None = None) -> bytes:
        many: Any = (
            [{"type": "leave"}] * 200_000, [{"type": "renew", "nonce": 1}] * 19_000, [_deep(100_000)],
            [{"type": "log", "ref": self._ref(), "rank": 0, "attempt": 1, "offset": 0, "data": b"x" * (5 << 20)}],
            [{**self.hello(), "info": {"name": self._name, "cpuMilli": 2**63, "memoryMib": 1}}],
        )[self._rng.randrange(_HUGE) if which is None else which]  # fmt: skip
        return msgspec.msgpack.encode({"messages": many})

    # ---- messages

    def _ref(self) -> dict[str, Any]:
        rng = self._rng
        job = rng.choice((self._job, self._job, "0000000000000000", "nobody"))
        fence = {"epoch": rng.choice((1, 1, 2)), "counter": rng.choice((0, 1, 2, 2**62))}
        return {"job": job, "tenant": rng.choice((self._tenant, self._tenant, "other")), "fence": fence}

    def _message(self) -> dict[str, Any]:
        rng, ref, number = self._rng, self._ref(), self._rng.randrange(1, 1000)
        rank = rng.choice((0, 0, 0, 1, 4095))
        said = {"ref": ref, "rank": rank}
        data = b"forged\n" * rng.choice((1, 100, 10_000))
        return rng.choice((
            {"type": "renew", "nonce": number},
            {"type": "started", "number": number, **said, "pid": 1, "at": 1.0},
            {"type": "exited", "number": number, **said, "exit": {"code": 0}, "at": 1.0, "value": b'{"forged": true}'},
            {"type": "exited", "number": number, **said, "exit": {"code": 0, "message": "y" * 9000}, "at": 1.0,
             "outputs": [{"path": "a", "size": 1, "sha256": "0" * 64}], "logLost": rng.choice((0, 5))},
            {"type": "fenced", "number": number, **said, "reason": "because"},
            {"type": "log", **said, "attempt": rng.choice((0, 1, 9)), "offset": rng.choice((0, 2**40)), "data": data},
            {"type": "output", **said, "sha256": "0" * 64, "size": 10**9, "offset": 0, "data": data},
            {"type": "progress", **said, "fraction": 0.5, "message": "z" * rng.choice((1, 60_000))},
        ))  # fmt: skip

    def _bend(self, value: Any) -> Any:
        rng = self._rng
        if isinstance(value, dict) and value and rng.random() < 0.9:
            key = rng.choice(list(value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            return {**value, key: self._bend(value[key])}
        odd: Any = rng.choice((
            rng.choice(ODD_NUMBERS), rng.choice(ODD_TEXTS), rng.choice(ODD_VALUES), _deep(rng.choice((5, 600))),
        ))  # fmt: skip
        return odd
