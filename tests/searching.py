"""How long Hypothesis searches: a little in `make test`, which is run often; ARES_SEARCH times that in `make chaos`."""

import os

_TIMES = float(os.environ.get("ARES_SEARCH") or 1.0)


def examples(often: int) -> int:
    """How many to try, given how many are tried often."""
    return max(1, round(often * _TIMES))
