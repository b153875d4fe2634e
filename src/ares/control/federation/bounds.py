"""What decoding cannot bound of a cluster's word about a job: values of any shape, which are kept as JSON."""

from typing import Any

import msgspec

from ares.model.cluster_link import DATA_BYTES_MAX, VALUE_BYTES_MAX, OwnedStanding

# Of all entries and the result together: they are written in one transaction.
_WHOLE_BYTES_MAX = VALUE_BYTES_MAX
_encode = msgspec.json.Encoder().encode


def beyond(standing: OwnedStanding) -> str | None:
    """Why it cannot be kept; None when it can."""
    whole = 0
    for entry in standing.entries:
        size = size_of(entry.data)
        if size is None or size > DATA_BYTES_MAX:
            return f"an entry of job {standing.job} says more than {DATA_BYTES_MAX} bytes of JSON"
        whole += size + len(entry.reason)
    if standing.ended is not None:
        size = size_of(standing.ended)
        if size is None or size > VALUE_BYTES_MAX:
            return f"the result of job {standing.job} has more than {VALUE_BYTES_MAX} bytes of JSON"
        whole += size
    return None if whole <= _WHOLE_BYTES_MAX else f"job {standing.job} says more than {_WHOLE_BYTES_MAX} bytes at once"


def size_of(value: Any) -> int | None:
    """In bytes of JSON; None for what is none."""
    try:
        return len(_encode(value))
    except (TypeError, ValueError, RecursionError):
        return None
