"""Policies by name: profiles to compare. Order is by submission unless the name says otherwise."""

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from ares.core.schedule.profiles import wrong
from ares.model.base import Record
from ares.model.profile import BackfillPolicy, BackfillStrategy, OrderPolicy, Profile, Weight

# Jobs alike are many in a trace, and no loop around the cycle has to stay responsive.
_PLACEMENTS = 100_000
_FIFO = OrderPolicy(primary=(Weight(name="fifo", weight=1.0),))
_WAITS = ("claim", "allocate")
# Published policies whose holds go by what is said of a run time, be it stated or predicted.
_EASY = ("easy", "easy-sjbf")
_FILLS = ("claim", "allocate", "backfill")


class UnknownPolicy(ValueError):
    """No policy and no file of that name; the message says which there are."""


class ReplayPolicy(Record, frozen=True):
    """A profile under a name, and what it takes for the run times of jobs."""

    name: str
    profile: Profile
    estimates: Literal["user", "exact", "predicted"] = "user"
    about: str = ""
    # Not the scheduler, but the oracle of `bound`, which has no nodes and no costs.
    oracle: bool = False


def _by(*names: str) -> OrderPolicy:
    return OrderPolicy(primary=tuple(Weight(name=name, weight=1.0) for name in names))


def _profile(
    order: OrderPolicy = _FIFO, strategy: BackfillStrategy | None = None, first: Literal["rank", "shortest"] = "rank"
) -> Profile:
    filling = BackfillPolicy() if strategy is None else BackfillPolicy(strategy=strategy, order=first, depth=0)
    actions = _WAITS if strategy is None else _FILLS
    return Profile(order=order, actions=actions, backfill=filling, max_placements_per_cycle=_PLACEMENTS)


def _paced(profile: Profile) -> Profile:
    return msgspec.structs.replace(profile, actions=("claim", "pace", *profile.actions[1:]))


_NAMED: tuple[tuple[str, Profile, str], ...] = (
    ("fcfs", _profile(), "in order of submission; whoever waits holds back all behind"),
    ("greedy", _profile(strategy="greedy"), "whoever fits starts, in order of submission"),
    ("easy", _profile(strategy="easy"), "whoever does not delay the first that waits may start before it"),
    ("easy-sjbf", _profile(strategy="easy", first="shortest"), "as easy, the shortest are tried first"),
    ("conservative", _profile(strategy="conservative"), "whoever delays nobody ahead of it may start"),
    ("aggressive", _profile(strategy="aggressive"), "as easy, and everybody may be delayed a little"),
    ("edf", _profile(_by("deadline"), "greedy"), "whoever must start soonest to meet a deadline comes first"),
    ("deadline", _paced(_profile(_by("deadline"), "deadline")), "as edf, nobody with a deadline is delayed; best GPUs"),
    ("sjf", _profile(_by("shortest")), "the shortest first; whoever waits holds back all behind"),
    ("sjf-backfill", _profile(_by("shortest"), "easy"), "the shortest first, others fill the gaps"),
    ("f1", _profile(_by("f1")), "small, short and early first (Carastan-Santos and de Camargo)"),
    ("f1-backfill", _profile(_by("f1"), "easy"), "as f1, others fill the gaps"),
    ("fair-share", _profile(_by("fair-share"), "easy"), "who used least of late first, others fill the gaps"),
    ("default", Profile(max_placements_per_cycle=_PLACEMENTS), "what a new installation goes by"),
)
# Without stated estimates run times are learnt, as in an installation.
POLICIES: dict[str, ReplayPolicy] = {
    name: ReplayPolicy(name=name, profile=profile, about=about, estimates="predicted" if name == "default" else "user")
    for name, profile, about in _NAMED
}
POLICIES["srtf"] = ReplayPolicy(
    name="srtf",
    profile=_profile(),
    estimates="exact",
    about="a bound: an oracle without nodes, the least left to run first, preemption for free",
    oracle=True,
)


def policy(text: str) -> ReplayPolicy:
    """By name or from a file (JSON, YAML or TOML). "easy@exact" says what it takes for run times."""
    name, _, estimates = text.partition("@")
    found = POLICIES.get(name)
    if found is None:
        profile = _read(Path(name))
        source = "user" if profile.prediction.source == "stated" else "predicted"
        found = ReplayPolicy(name=Path(name).stem, profile=profile, estimates=source)
    if not estimates:
        return found
    if estimates not in ("user", "exact", "predicted"):
        raise UnknownPolicy(f"{text}: after @ comes user, exact or predicted, not {estimates!r}")
    profile = found.profile
    if estimates == "predicted" and found.name in _EASY:
        profile = replace(profile, backfill=replace(profile.backfill, hold="likely"))
    return replace(found, name=f"{found.name}@{estimates}", estimates=estimates, profile=profile)


def _read(path: Path) -> Profile:
    if not path.is_file():
        raise UnknownPolicy(f"no policy {str(path)!r}: there are {', '.join(POLICIES)}, or name a file with a profile")
    data = path.read_bytes()
    try:
        profile = _decoded(path.suffix, data)
    except (msgspec.MsgspecError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UnknownPolicy(f"{path}: not a profile: {error}") from None
    why = wrong(profile)
    if why:
        raise UnknownPolicy(f"{path}: {why}")
    return profile


def _decoded(suffix: str, data: bytes) -> Profile:
    """The profile itself, or inside of what `ares profile show -o yaml` and `ares tune --write` give."""
    found: dict[str, Any]
    if suffix in (".yaml", ".yml"):
        found = msgspec.yaml.decode(data, type=dict[str, Any])
    elif suffix == ".toml":
        found = tomllib.loads(data.decode())
    else:
        found = msgspec.json.decode(data, type=dict[str, Any])
    found = msgspec.convert(found.get("profile", found), dict[str, Any])
    known = {field.encode_name for field in msgspec.structs.fields(Profile)}
    # Records pass over what they do not know; a profile full of such names would be the default one.
    unknown = next((name for name in found if name not in known), None)
    if unknown is not None:
        raise msgspec.ValidationError(f"it has no {unknown!r}; there are {', '.join(sorted(known))}")
    return msgspec.convert(found, Profile)
