"""The notice of a job's end: which channels are told, what, and when a notice is done with."""

from collections.abc import Iterable, Mapping

from ares.core import keys
from ares.core.alerts.due import next_at
from ares.core.refusal import Refusal
from ares.model.alert import AlertRecord, ChannelRecord, Sent
from ares.model.job import JobSpec
from ares.model.state import JobState

KIND = "job-ended"
# That wait to be sent: of one tenant. What is beyond is dropped.
NOTICES_MAX = 1000
_TEXT_MAX = 1000


def refused(tenant: str, spec: JobSpec, channels: Mapping[str, ChannelRecord]) -> Refusal | None:
    """Why no channel could be told of the job's end. `channels` are all there are, by their whole names."""
    if not spec.notify:
        return None
    if spec.array is not None:
        message = f"a notice for each task of {spec.array!r} would be a flood, and an array has no end of its own"
        return Refusal(code="notify-on-array", message=message, fix="`ares wait ARRAY --then COMMAND` tells you")
    for wish in spec.notify:
        name = wish.partition(":")[0]
        if keys.scoped(tenant, name) not in channels:
            message = f"the tenant has no channel {name!r}"
            fix = f"a tenant-admin makes it with `ares channel set {name}`; `ares channel list` shows those there are"
            return Refusal(code="notify-unknown", message=message, fix=fix)
    return None


def notice_of_end(spec: JobSpec, state: JobState, now: float) -> AlertRecord | None:
    """None when no channel is to be told of such an end."""
    well = state.phase == "SUCCEEDED"
    told = {"end", "success" if well else "fail"}
    names = (wish.partition(":") for wish in spec.notify)
    channels = tuple(dict.fromkeys(name for name, _, when in names if (when or "end") in told))
    if not channels:
        return None
    ran = None if state.started_at is None else max(0.0, (state.ended_at or now) - state.started_at)
    why = state.reason or (state.exit.message if state.exit is not None else "")
    code = "" if state.exit is None or state.exit.code is None or well else f" with exit code {state.exit.code}"
    text = f"job {state.name} ({state.id}) {state.phase}{code}{f': {why}' if why else ''}"
    return AlertRecord(
        id=state.id,
        kind=KIND,
        tenant=state.tenant,
        subject=state.id,
        text=text[:_TEXT_MAX],
        severity="info" if well else "warning",
        numbers={"attempts": float(state.attempt), **({} if ran is None else {"run_s": round(ran, 1)})},
        first_at=now,
        last_at=now,
        channels=channels,
    )


def due_notices(
    notices: Iterable[AlertRecord], channels: Mapping[str, ChannelRecord], now: float
) -> tuple[list[tuple[AlertRecord, str]], float | None, list[AlertRecord]]:
    """Those to send now, how long until the next, and those that are over: told, given up, or without a channel."""
    found: list[tuple[AlertRecord, str]] = []
    over: list[AlertRecord] = []
    wait: float | None = None
    for notice in notices:
        open_ = False
        for channel in notice.channels:
            name = keys.scoped(notice.tenant, channel)
            known = channels.get(name)
            at = None if known is None or not known.enabled else next_at(notice, notice.sent.get(name, Sent()))
            if at is None:
                continue
            open_ = True
            if at <= now:
                found.append((notice, name))
            else:
                wait = at - now if wait is None else min(wait, at - now)
        if not open_:
            over.append(notice)
    return found, wait, over
