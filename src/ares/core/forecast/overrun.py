"""The run time to plan by once a job has outlived its estimate: a little more each time, in ever larger steps."""

_MINUTE, _HOUR = 60.0, 3600.0
# As in Tsafrir, Etsion and Feitelson (TPDS 2007), each added to the first estimate.
STEPS = (
    _MINUTE, 5 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE, _HOUR, 2 * _HOUR, 5 * _HOUR, 10 * _HOUR, 20 * _HOUR, 50 * _HOUR,
    100 * _HOUR,
)  # fmt: skip


# A job that is late by an instant is looked at again a second later.
_LEAST_S = 1.0


def overrun(estimate_s: float, ran_s: float) -> float:
    """The run time to plan by where nothing bounds it: the job is taken to run on for as long as it is late already.
    An overrun of an instant moves a promise by a second, one of an hour by an hour."""
    return ran_s + max(_LEAST_S, ran_s - estimate_s)


def corrected(estimate_s: float, ran_s: float, limit_s: float | None = None) -> float:
    """The run time to plan by, longer than `ran_s`: the next step, or the limit where that comes first."""
    step = next((estimate_s + step for step in STEPS if estimate_s + step > ran_s), None)
    longer = 2.0 * ran_s if step is None else step
    # A job beyond its limit is about to be ended.
    return longer if limit_s is None or limit_s >= longer else max(limit_s, ran_s + 1.0)
