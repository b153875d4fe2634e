"""Messages of a cluster, in frames that its global plane takes."""

from collections.abc import Iterator, Sequence

import msgspec

from ares.model.cluster_link import BookTold, ClusterFrame, ClusterMessage, ListedBucket, LocalJob, OwnedStanding

# Well below what the other side refuses, so that one more message always fits.
_FRAME_BYTES = 4 * 1024 * 1024
_FRAME_MESSAGES = 1_000
_SMALL_BYTES = 512
_LARGE = (OwnedStanding, LocalJob, ListedBucket, BookTold)
_encode = msgspec.msgpack.Encoder().encode


def frames_of(messages: Sequence[ClusterMessage]) -> Iterator[ClusterFrame]:
    """In order. A job that ended comes with the end of its log: some hundreds of them do not fit one frame."""
    taken: list[ClusterMessage] = []
    room = _FRAME_BYTES
    for message in messages:
        taken.append(message)
        room -= len(_encode(message)) if isinstance(message, _LARGE) else _SMALL_BYTES
        if room <= 0 or len(taken) >= _FRAME_MESSAGES:
            yield ClusterFrame(messages=tuple(taken))
            taken, room = [], _FRAME_BYTES
    if taken:
        yield ClusterFrame(messages=tuple(taken))
