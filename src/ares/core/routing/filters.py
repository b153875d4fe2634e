"""Hard rules: a cluster that one of them refuses gets no offer, whatever it would cost to wait."""

from collections.abc import Callable

from ares.core.federation.reports import UNREACHABLE_S, reach
from ares.core.routing.facts import RouteAsk, RouteOption
from ares.core.routing.terms import fits
from ares.model.cluster import RouteCode, RouteRefusal


def _active(_ask: RouteAsk, option: RouteOption) -> str:
    return "" if option.state == "ACTIVE" else f"it is {option.state}"


def _silent(_ask: RouteAsk, option: RouteOption) -> str:
    if option.report_age_s is None:
        return "it has not reported yet"
    if reach(option.report_age_s) != "UNREACHABLE":
        return ""
    return f"it last reported {option.report_age_s:.0f} s ago, and {UNREACHABLE_S:g} s are the most"


def _declined(_ask: RouteAsk, option: RouteOption) -> str:
    return option.declined


def _residency(ask: RouteAsk, option: RouteOption) -> str:
    if not ask.residency or option.region in ask.residency:
        return ""
    place = f"it is in {option.region}" if option.region else "it does not say where it is"
    return f"{place}, and the job may run in {', '.join(ask.residency)}"


def _policy(ask: RouteAsk, option: RouteOption) -> str:
    return "" if ask.allowed is None or option.cluster in ask.allowed else "a policy does not allow it"


def _architecture(ask: RouteAsk, option: RouteOption) -> str:
    if not ask.arch or not option.shapes or any(shape.arch in ("", ask.arch) for shape in option.shapes):
        return ""
    return f"none of its machines is {ask.arch}"


def _selector(ask: RouteAsk, option: RouteOption) -> str:
    lacking = [] if option.labels is None else [wanted for wanted in ask.selector if wanted not in option.labels]
    return f"none of its machines has the label {lacking[0]}" if lacking else ""


def _large(ask: RouteAsk, option: RouteOption) -> str:
    fitting = [shape for shape in option.shapes if fits(ask, shape)]
    if fitting:
        # A gang may be spread over all of them. What a shape holds may not be known.
        holds = sum(max(shape.free, ask.ranks if shape.holds is None else shape.holds) for shape in fitting)
        return "" if holds >= ask.min_ranks else f"its machines hold {holds} of the job's {ask.min_ranks} ranks"
    if not option.shapes:
        return "it has no machine that is ready"
    gpus = f", {ask.gpus} {ask.gpu_model or 'GPUs'}" if ask.gpus else ""
    memory = f" and {ask.memory_mib} MiB" if ask.memory_mib else ""
    firm = "" if ask.preemptible else ", for a job that must not be taken away"
    wanted = f"{ask.cpu_milli / 1000:g} cores{gpus}{memory}{firm}"
    return f"none of its {len(option.shapes)} kinds of machines has {wanted}"


# In the order in which a person would look for the reason.
FILTERS: dict[RouteCode, Callable[[RouteAsk, RouteOption], str]] = {
    "not-active": _active,
    "silent": _silent,
    "residency": _residency,
    "policy": _policy,
    "architecture": _architecture,
    "selector": _selector,
    "too-large": _large,
    "declined": _declined,
}


def refused(ask: RouteAsk, option: RouteOption) -> RouteRefusal | None:
    """The first rule that says no. Budget and deadline are judged by the terms, see `choice`."""
    for code, rule in FILTERS.items():
        message = rule(ask, option)
        if message:
            return RouteRefusal(cluster=option.cluster, code=code, message=message)
    return None
