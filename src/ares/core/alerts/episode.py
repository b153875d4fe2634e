"""When an alert is the same one again, and when it begins anew."""

from msgspec.structs import replace

from ares.model.alert import AlertRecord

# What was quiet for so long is told again.
EPISODE_S = 3600.0
_LOUDNESS = {"info": 0, "warning": 1, "critical": 2}


def again(known: AlertRecord, fresh: AlertRecord) -> AlertRecord:
    """`known` as it is after it was raised once more. What got worse, was over or was quiet begins anew."""
    worse = _LOUDNESS[fresh.severity] > _LOUDNESS[known.severity]
    anew = known.state == "resolved" or fresh.last_at - known.last_at > EPISODE_S or worse
    if anew:
        return replace(fresh, episode=known.episode + 1, sent=known.sent)
    return replace(
        known,
        count=known.count + 1,
        last_at=fresh.last_at,
        text=fresh.text,
        numbers=fresh.numbers,
        severity=fresh.severity,
    )
