"""The one base of every record, the bounded scalar types they share, and what names an attempt and its files."""

from typing import Annotated

import msgspec
from msgspec import Meta


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A frozen value, which can be in no cycle. JSON names are camelCase; unknown fields are ignored when read back,
    so that two versions can share a store. Borders that must refuse them do so themselves."""


class Shown(Record, frozen=True, omit_defaults=False):
    """An answer that is written out whole by itself."""


# Names are data, never paths or format strings; the pattern keeps terminals and logs safe.
Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:/@+-]*$(?!\n)")]
Slug = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$(?!\n)")]
LabelKey = Annotated[
    str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$(?!\n)")
]
LabelValue = Annotated[str, Meta(max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)")]
RequestId = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$(?!\n)")]
# What a machine says is bounded in every field: columns hold 64 bits, and a time is a number of seconds, never NaN.
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Instant = Annotated[float, Meta(ge=0.0, le=1e11)]
# A word or a line of it, and more words; shown to people only after what drives a terminal is taken out.
Line = Annotated[str, Meta(max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)")]
Words = Annotated[str, Meta(max_length=65_536)]
Note = Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$(?!\n)")]
# Of bytes, in lower-case hexadecimal.
Sha256 = Annotated[str, Meta(min_length=64, max_length=64, pattern=r"^[0-9a-f]+$(?!\n)")]


# ---- attempts


class Fence(Record, frozen=True, order=True):
    """Grows with every grant and every revocation of a job; the epoch grows with every restore."""

    epoch: Number = 1
    counter: Number = 0

    def __str__(self) -> str:
        return f"{self.epoch}.{self.counter}"


class AttemptRef(Record, frozen=True):
    """One attempt of one job on one node."""

    job: Line
    tenant: Line
    fence: Fence


class CheckpointRef(AttemptRef, frozen=True):
    """One checkpoint of an attempt: where its files are kept."""

    seq: Number


class OutputFile(Record, frozen=True):
    """One file that a job handed over, by its path below ARES_OUTPUT_DIR; of a gang, below `rank-N/`."""

    path: Annotated[str, Meta(max_length=4096)]
    size: Number
    sha256: Line
