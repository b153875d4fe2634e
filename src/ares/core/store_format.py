"""Which versions may write to one store at the same time.

A version reads records of newer ones and leaves out what it does not know, so it would drop that when it writes the
record again. Keeping it would be no better: what a newer version means by a field, an older one cannot keep true. So
the store says by which format it is written, and a replica that knows only an older one ends.

A replica that raises the format does so before its first record. Every replica follows the store in order and writes
only what it compares with what it has seen: an older one sees the new format before any record of it, and ends first.
"""

from typing import Final

import msgspec

from ares.model.base import Record

# Raise it with a field in a record that is written again (a job's state, a node, a reservation), if its loss or its old
# value would break a promise. Format 2: what ranks of a gang that have ended handed over (JobState.outputs). Format 3:
# jobs that wait for a person, a time or other jobs (WAITING, SKIPPED, JobState.needs_met, JobState.flow),
# and what a job asks for by now (JobState.update). Format 4: jobs that have waited as long as they were to
# (JobState.needs_overdue). Format 5: ranks that failed while it is not decided by which of them (JobState.failing), and
# what starts a job's processes (JobSpec.runtime). Format 6: datasets, whose files an older leader would remove, and
# which of them a job is given (DataInput.from_).
# Format 7: the newest checkpoint of a job (JobState.checkpoint). Format 8: daily books, which an older leader would
# forget jobs of, the day that a job counts on (JobState.book_day), and the cluster that has a job (JobState.owner).
FORMAT: Final = 8


class StoreFormat(Record, frozen=True):
    format: int


def encode() -> bytes:
    return msgspec.json.encode(StoreFormat(format=FORMAT))


def decode(value: bytes) -> int:
    return msgspec.json.decode(value, type=StoreFormat).format


def newer(value: bytes) -> str:
    """Why a store with this record is not for this version; empty when it is."""
    said = decode(value)
    if said <= FORMAT:
        return ""
    return (
        f"a newer version of Ares writes to this store (format {said}, this version knows {FORMAT}): "
        "start this replica with that version"
    )
