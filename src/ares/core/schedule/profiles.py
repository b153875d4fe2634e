"""Changes to a profile: what makes one unusable, and single settings by their names."""

import re
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

import msgspec

from ares.core.queue.factors import BY_RUN_TIME, SETTLED
from ares.core.schedule.actions import ACTIONS
from ares.core.schedule.plugins import UnknownName, check
from ares.model.cluster import RoutingPolicy
from ares.model.profile import (
    BackfillPolicy,
    EnergyPolicy,
    IdlePolicy,
    OrderPolicy,
    Pool,
    PredictionPolicy,
    PreemptionPolicy,
    Profile,
    Share,
    Sla,
)

_PLACES_MAX = 3
_LIMIT = re.compile(r"^(?P<path>.+?)(?:\.(?P<field>weight|(?:soft|hard)\.(?:cpu|memory|gpu)))?$")
_EXPECTED = re.compile(r"Expected `(?P<kind>float|int|bool)`(?: (?P<sign>[<>]=) (?P<bound>[-+.e0-9]+))?(?:, got| - at)")
_KINDS = {"float": "a number", "int": "a whole number", "bool": "true or false"}
_BOUNDS = {">=": "at least", "<=": "at most"}
_KEYS = (
    "weight.SCORER", "order.FIELD", "order.primary.FACTOR", "order.secondary.FACTOR", "preemption.FIELD",
    "backfill.FIELD", "prediction.FIELD", "shares.PATH.weight", "shares.PATH.hard.gpu", "shares.PATH.soft.cpu",
    "pools.POOL.FIELD", "energy.cpu_watts", "energy.gpu_watts.MODEL", "idle.FIELD", "currency",
    "routing.FIELD", "routing.tenant_money_s.TENANT", "routing.priority_money_s.PRIORITY",
    "slas.NAME.FIELD", "licences.NAME", "filters", "actions", "max_placements_per_cycle",
)  # fmt: skip


class BadSetting(ValueError):
    """A setting's name or value makes no sense; the message says what would."""


# ---- what is wrong with a whole profile


def wrong(profile: Profile) -> str:
    """Why scheduling cannot go by the profile, or nothing."""
    try:
        check(profile, dict(ACTIONS))
    except UnknownName as error:
        return str(error)
    return _without_allocate(profile) or _twice(profile) or _unsettled(profile) or _shares(profile) or _slas(profile)


def _without_allocate(profile: Profile) -> str:
    if "allocate" in profile.actions:
        return ""
    return "actions have no 'allocate': nothing would ever start; add it"


def _unsettled(profile: Profile) -> str:
    names = [factor.name for factor in (*profile.order.primary, *profile.order.secondary)]
    by_run_time = next((name for name in names if name in BY_RUN_TIME), None)
    moving = next((name for name in names if name not in SETTLED), None)
    if by_run_time is None or moving is None:
        return ""
    known, why = ", ".join(sorted(SETTLED)), "which changes as jobs wait"
    return f"the order factor {by_run_time!r} does not go with {moving!r}, {why}; with {known} it does"


def _twice(profile: Profile) -> str:
    order = profile.order
    lists = {
        "filters": profile.filters,
        "actions": profile.actions,
        "scorers": tuple(scorer.name for scorer in profile.scorers),
        "order.primary": tuple(factor.name for factor in order.primary),
        "order.secondary": tuple(factor.name for factor in order.secondary),
    }
    for where, names in lists.items():
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            return f"{where} name {double!r} twice; once is enough"
    return ""


def _shares(profile: Profile) -> str:
    for path, share in profile.shares.items():
        parts = path.split("/")
        if len(parts) > _PLACES_MAX or not all(parts):
            return f"the share path {path!r} is not tenant, tenant/team or tenant/team/user"
        for resource, soft in share.soft.items():
            hard = share.hard.get(resource)
            if hard is not None and hard < soft:
                return f"{path}: the hard limit of {resource} is {hard}, below its soft limit {soft}"
    return ""


def _slas(profile: Profile) -> str:
    empty = next((name for name, sla in profile.slas.items() if sla == Sla()), None)
    if empty is None:
        return ""
    return f"the class of service {empty!r} asks for nothing; set slas.{empty}.end_within_s or start_within_s"


# ---- single settings


def changed(profile: Profile, sets: Mapping[str, str]) -> Profile:
    """The profile with these settings. An empty value takes an entry away, or a field back to its default.

    Raises BadSetting for the first that is not known or does not fit."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(profile))
    # Fields at their default are left out of it; lists are changed, not replaced.
    full: dict[str, Any] = {
        "filters": list(profile.filters),
        "actions": list(profile.actions),
        "scorers": [{"name": scorer.name, "weight": scorer.weight} for scorer in profile.scorers],
    }
    plain = {**plain, **full}
    made = profile
    for key, value in sets.items():
        _set(plain, profile, key, value)
        try:
            # One at a time, so that the setting that does not fit can be named as it was typed.
            made = msgspec.convert(plain, Profile, strict=False)
        except msgspec.ValidationError as error:
            raise BadSetting(_misfit(key, value, str(error))) from None
    return made


def _misfit(key: str, value: str, error: str) -> str:
    found = _EXPECTED.match(error)
    if (choices := _choices(key)) and "enum" in error:
        return f"{key}={value} does not fit: {key} is one of {', '.join(choices)}"
    if found is None:
        # The error is about a name in the key: its place in the whole profile helps no reader.
        return f"{key} cannot be set: {error.partition(' - at ')[0]}"
    bound = f" of {_BOUNDS[found['sign']]} {float(found['bound']):.12g}" if found["sign"] else ""
    return f"{key}={value} does not fit: {key} is {_KINDS[found['kind']]}{bound}"


def _choices(key: str) -> tuple[str, ...]:
    """The words that a setting may be, where it is one of a list."""
    head, _, field = key.partition(".")
    section = {"backfill": BackfillPolicy, "prediction": PredictionPolicy}.get(head)
    return () if section is None else get_args(get_type_hints(section).get(field))


def _set(plain: dict[str, Any], profile: Profile, key: str, value: str) -> None:
    head, _, rest = key.partition(".")
    handler = _HANDLERS.get(head)
    if handler is None or (bool(rest) == (head in _WHOLE)):
        raise BadSetting(f"there is no setting {key!r}; there are {', '.join(_KEYS)}")
    handler(plain, profile, rest, value)


def _names(section: str) -> Callable[[dict[str, Any], Profile, str, str], None]:
    def put(plain: dict[str, Any], _profile: Profile, _rest: str, value: str) -> None:
        """ "a,b,c" is the whole list; "+x" adds one at the end, "-x" takes one out."""
        names: list[str] = plain[section]
        if value.startswith("+"):
            names.append(value[1:])
        elif value.startswith("-"):
            if value[1:] not in names:
                raise BadSetting(f"{section} have no {value[1:]!r}; they are {', '.join(names)}")
            names.remove(value[1:])
        else:
            plain[section] = [name.strip() for name in value.split(",") if name.strip()]

    return put


def _weigh(weights: list[dict[str, Any]], name: str, value: str) -> None:
    found = next((weight for weight in weights if weight["name"] == name), None)
    if not value:
        weights[:] = [weight for weight in weights if weight["name"] != name]
    elif found is None:
        weights.append({"name": name, "weight": value})
    else:
        found["weight"] = value


def _weight(plain: dict[str, Any], _profile: Profile, rest: str, value: str) -> None:
    _weigh(plain["scorers"], rest, value)


def _order(plain: dict[str, Any], profile: Profile, rest: str, value: str) -> None:
    which, _, name = rest.partition(".")
    if which not in ("primary", "secondary") or not name:
        _field(plain.setdefault("order", {}), OrderPolicy, "order", rest, value)
        return
    order = plain.setdefault("order", {})
    known = profile.order.primary if which == "primary" else profile.order.secondary
    order.setdefault(which, [{"name": factor.name, "weight": factor.weight} for factor in known])
    _weigh(order[which], name, value)


def _preemption(plain: dict[str, Any], _profile: Profile, rest: str, value: str) -> None:
    _field(plain.setdefault("preemption", {}), PreemptionPolicy, "preemption", rest, value)


def _backfill(plain: dict[str, Any], _profile: Profile, rest: str, value: str) -> None:
    _field(plain.setdefault("backfill", {}), BackfillPolicy, "backfill", rest, value)


def _prediction(plain: dict[str, Any], _profile: Profile, rest: str, value: str) -> None:
    _field(plain.setdefault("prediction", {}), PredictionPolicy, "prediction", rest, value)


def _share(plain: dict[str, Any], _profile: Profile, rest: str, value: str) -> None:
    found = _LIMIT.match(rest)
    path, field = (rest, None) if found is None else (found["path"], found["field"])
    shares: dict[str, Any] = plain.setdefault("shares", {})
    if field is None:
        if value:
            raise BadSetting(f"shares.{path}: say what of it: weight, soft.gpu, hard.gpu, hard.cpu or hard.memory")
        shares.pop(path, None)
        return
    share: dict[str, Any] = shares.setdefault(path, {})
    name, _, resource = field.partition(".")
    if resource:
        _entry(share.setdefault(name, {}), resource, value)
    else:
        _field(share, Share, f"shares.{path}", name, value)


def _pool(plain: dict[str, Any], _profile: Profile, rest: str, value: str) -> None:
    name, _, field = rest.rpartition(".")
    pools: dict[str, Any] = plain.setdefault("pools", {})
    if not name and not value:
        pools.pop(rest, None)
        return
    _field(pools.setdefault(name, {}) if name else {}, Pool, f"pools.{name or rest}", field if name else "", value)


def _sla(plain: dict[str, Any], _profile: Profile, rest: str, value: str) -> None:
    name, _, field = rest.partition(".")
    slas: dict[str, Any] = plain.setdefault("slas", {})
    if not field:
        if value:
            raise BadSetting(f"slas.{name}: say what of it: end_within_s or start_within_s")
        slas.pop(name, None)
        return
    _field(slas.setdefault(name, {}), Sla, f"slas.{name}", field, value)


def _energy(plain: dict[str, Any], _profile: Profile, rest: str, value: str) -> None:
    field, _, model = rest.partition(".")
    energy: dict[str, Any] = plain.setdefault("energy", {})
    if field in ("gpu_watts", "gpuWatts") and model:
        _entry(energy.setdefault("gpuWatts", {}), model, value)
    elif field in ("gpu_watts", "gpuWatts") and value:
        raise BadSetting("energy.gpu_watts: say of which model, such as energy.gpu_watts.A100")
    else:
        _field(energy, EnergyPolicy, "energy", rest, value)


def _routing(plain: dict[str, Any], _profile: Profile, rest: str, value: str) -> None:
    field, _, name = rest.partition(".")
    routing: dict[str, Any] = plain.setdefault("routing", {})
    whose = _MONEY.get(field)
    if whose is None:
        _field(routing, RoutingPolicy, "routing", rest, value)
    elif name:
        _entry(routing.setdefault(whose, {}), name, value)
    elif value:
        raise BadSetting(
            f"routing.{field}: say whose, such as routing.tenant_money_s.acme or routing.priority_money_s.HIGH"
        )
    else:
        routing.pop(whose, None)


def _idle(plain: dict[str, Any], _profile: Profile, rest: str, value: str) -> None:
    _field(plain.setdefault("idle", {}), IdlePolicy, "idle", rest, value)


def _currency(plain: dict[str, Any], _profile: Profile, _rest: str, value: str) -> None:
    _entry(plain, "currency", value)


def _licence(plain: dict[str, Any], _profile: Profile, rest: str, value: str) -> None:
    _entry(plain.setdefault("licences", {}), rest, value)


def _limit(plain: dict[str, Any], _profile: Profile, _rest: str, value: str) -> None:
    _field(plain, Profile, "the profile", "max_placements_per_cycle", value)


def _entry(entries: dict[str, Any], name: str, value: str) -> None:
    if value:
        entries[name] = value
    else:
        entries.pop(name, None)


def _field(plain: dict[str, Any], kind: type[msgspec.Struct], where: str, name: str, value: str) -> None:
    """Sets a field by its name in Python or in JSON."""
    fields = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    known = fields.get(name) or (name if name in fields.values() else None)
    if known is None:
        raise BadSetting(f"{where} has no {name!r}; there are {', '.join(sorted(fields))}")
    _entry(plain, known, value)


_MONEY = {
    "tenant_money_s": "tenantMoneyS", "tenantMoneyS": "tenantMoneyS",
    "priority_money_s": "priorityMoneyS", "priorityMoneyS": "priorityMoneyS",
}  # fmt: skip
_HANDLERS: dict[str, Callable[[dict[str, Any], Profile, str, str], None]] = {
    "weight": _weight,
    "order": _order,
    "preemption": _preemption,
    "backfill": _backfill,
    "prediction": _prediction,
    "shares": _share,
    "pools": _pool,
    "slas": _sla,
    "energy": _energy,
    "idle": _idle,
    "routing": _routing,
    "currency": _currency,
    "licences": _licence,
    "filters": _names("filters"),
    "actions": _names("actions"),
    "max_placements_per_cycle": _limit,
    "maxPlacementsPerCycle": _limit,
}
_WHOLE = frozenset({"currency", "filters", "actions", "max_placements_per_cycle", "maxPlacementsPerCycle"})
