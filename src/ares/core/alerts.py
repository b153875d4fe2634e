"""When a channel is to be told of an alert or of a job's end, and what it is told."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ares.core import keys
from ares.core.refusal import Refusal
from ares.model.alert import PLATFORM, AlertRecord, ChannelRecord, Notice, Sent
from ares.model.job import JobSpec
from ares.model.state import JobState

# ---- When an alert is the same one again, and when it begins anew.


# An alert that was quiet for so long is told again.
EPISODE_S = 3600.0
_LOUDNESS = {"info": 0, "warning": 1, "critical": 2}


def again(known: AlertRecord, fresh: AlertRecord) -> AlertRecord:
    """`known` after it was raised once more. An alert that got worse, was over or was quiet begins anew."""
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


TRIES_MAX = 12
# Sent to the channels of one tenant in one round.
PER_TENANT_MAX = 4
_FIRST_S = 5.0
_LONGEST_S = 600.0
_COLOURS = {"info": "#439fe0", "warning": "#daa038", "critical": "#a30200"}


def notice_of(alert: AlertRecord) -> Notice:
    return Notice(
        id=alert.delivery,
        kind=alert.kind,
        severity=alert.severity,
        tenant=alert.tenant,
        subject=alert.subject,
        text=alert.text,
        at=alert.first_at,
        numbers=alert.numbers,
    )


def due(
    alerts: Iterable[AlertRecord], channels: Mapping[str, ChannelRecord], now: float
) -> tuple[list[tuple[AlertRecord, str]], float | None]:
    """The alerts to send now, and how long until the next is due."""
    found: list[tuple[AlertRecord, str]] = []
    wait: float | None = None
    for alert in alerts:
        if alert.state == "resolved":
            continue
        for name, channel in channels.items():
            # An alert from before the channel is old news.
            if not channel.wants(alert) or alert.first_at < channel.created_at:
                continue
            at = next_at(alert, alert.sent.get(name, Sent()))
            if at is not None and at <= now:
                found.append((alert, name))
            elif at is not None:
                wait = at - now if wait is None else min(wait, at - now)
    return found, wait


def in_turn(
    found: Iterable[tuple[AlertRecord, str]], channels: Mapping[str, ChannelRecord]
) -> list[tuple[AlertRecord, str]]:
    """Those of a round. The platform's channels come first, then the first of each tenant, the second of each, and so
    on to a bound: a tenant whose receivers hang delays its own alerts."""
    counts, turns = dict[str, int](), list[tuple[int, tuple[AlertRecord, str]]]()
    for item in found:
        channel = channels.get(item[1])
        if channel is None or channel.tenant == PLATFORM:
            turns.append((0, item))
            continue
        turn = counts[channel.tenant] = counts.get(channel.tenant, 0) + 1
        if turn <= PER_TENANT_MAX:
            turns.append((turn, item))
    return [item for _, item in sorted(turns, key=lambda entry: entry[0])]


def next_at(alert: AlertRecord, sent: Sent) -> float | None:
    """When the channel is told next; None when it knows, or was given up."""
    if sent.episode < alert.episode:
        return 0.0
    return None if sent.arrived_at is not None or sent.given_up else sent.next_at


def marked(alert: AlertRecord, channel: str, episode: int, error: str | None, final: bool, now: float) -> AlertRecord:
    """The alert after a try: delivered without an error, else tried again, ever less often, and at last given up."""
    before = alert.sent.get(channel, Sent())
    if before.episode > episode:
        return alert
    tries = (before.tries if before.episode == episode else 0) + 1
    if error is None:
        after = Sent(episode=episode, tries=tries, arrived_at=now)
    else:
        wait_s = min(_LONGEST_S, _FIRST_S * 2 ** (tries - 1))
        after = Sent(
            episode=episode, tries=tries, next_at=now + wait_s, error=error[:300], given_up=final or tries >= TRIES_MAX
        )
    return replace(alert, sent={**alert.sent, channel: after})


def slack(notice: Notice) -> dict[str, object]:
    """What Slack's incoming webhooks take, and services modelled on them. Text is text: nothing in it mentions or
    links."""
    fields = [("kind", notice.kind), ("severity", notice.severity), ("tenant", notice.tenant or "platform")]
    fields += [("subject", notice.subject), *((name, f"{value:g}") for name, value in notice.numbers.items())]
    attachment = {
        "color": _COLOURS[notice.severity],
        "text": _escaped(notice.text),
        "fields": [{"title": _escaped(name), "value": _escaped(value), "short": True} for name, value in fields],
        "footer": f"ares {notice.id}",
        "ts": int(notice.at),
    }
    return {"text": _escaped(f"{notice.title}: {notice.text}"), "attachments": [attachment]}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# ---- the end of a job


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
