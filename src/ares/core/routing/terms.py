"""The terms of one cluster for one job. Each is in seconds or in money, and the score is their sum."""

from typing import Final

from ares.core.federation.reports import REPORT_EVERY_S
from ares.core.routing.facts import RouteAsk, RouteOption, ShapeRoom
from ares.core.topology.cards import words
from ares.model.cluster import RouteTerms, RouteWeights

_HOUR_S = 3600.0
# Without a rate at which places become free: what one more job before this one makes it wait.
_STEP_S = 60.0
# Terms are kept as they count: rounded before the score is made of them.
_SECONDS_DIGITS, _RTT_DIGITS, _MONEY_DIGITS = 3, 2, 6

TIME: Final = ("wait_s", "boot_s", "data_s", "image_s", "run_s")
MONEY: Final = ("run_cost", "egress_cost", "interruption_cost")


def words_of(term: str, value: float) -> str:
    """In its unit."""
    return f"{value:.2f}" if term in MONEY else f"{value:.1f} s"


def seconds(terms: RouteTerms) -> float:
    return terms.wait_s + terms.boot_s + terms.data_s + terms.image_s + terms.run_s


def money(terms: RouteTerms) -> float:
    return terms.run_cost + terms.egress_cost + terms.interruption_cost


def weighed(terms: RouteTerms, weights: RouteWeights) -> dict[str, float]:
    """Every term in seconds, by its name: what the score is the sum of."""
    shares = {name: float(getattr(terms, name)) for name in TIME}
    shares |= {name: weights.money_s * float(getattr(terms, name)) for name in MONEY}
    return shares | {"rtt_s": weights.rtt * terms.rtt_s, "age_s": weights.age * terms.age_s}


def score(terms: RouteTerms, weights: RouteWeights) -> float:
    return (
        seconds(terms) + weights.money_s * money(terms) + weights.rtt * terms.rtt_s + weights.age * terms.age_s
    )  # fmt: skip


def fits(ask: RouteAsk, shape: ShapeRoom) -> bool:
    """Whether one rank of the job fits an empty machine of this kind."""
    room = ask.cpu_milli <= shape.cpu_milli and ask.memory_mib <= shape.memory_mib and ask.gpus <= shape.gpus
    if not room or (shape.spot and not ask.preemptible):
        return False
    model = not ask.gpus or not ask.gpu_model or words(ask.gpu_model) <= words(shape.gpu_model)
    arch = not ask.arch or not shape.arch or ask.arch == shape.arch
    return model and arch and (not ask.gpus or ask.gpu_memory_mib <= (shape.gpu_memory_mib or ask.gpu_memory_mib))


def terms_of(ask: RouteAsk, option: RouteOption, shape: ShapeRoom) -> RouteTerms:
    data_s, egress = _data(ask, option)
    image = ask.image_gib if ask.image and ask.image not in option.images else 0.0
    run = ask.run_s / shape.speed
    hourly = shape.price_per_hour * ask.ranks
    lost = run if ask.checkpoint_s is None else min(run, ask.checkpoint_s)
    chance = min(1.0, shape.interruptions_per_hour * run / _HOUR_S)
    return RouteTerms(
        wait_s=round(_wait(ask, shape), _SECONDS_DIGITS),
        boot_s=round(shape.boot_s, _SECONDS_DIGITS),
        data_s=round(data_s, _SECONDS_DIGITS),
        image_s=round(image / option.route.gib_per_s, _SECONDS_DIGITS),
        run_s=round(run, _SECONDS_DIGITS),
        run_cost=round(hourly * run / _HOUR_S, _MONEY_DIGITS),
        egress_cost=round(egress, _MONEY_DIGITS),
        interruption_cost=round(chance * hourly * lost / _HOUR_S, _MONEY_DIGITS),
        # Less is no difference: of clusters that are as good, the one with most room left is chosen.
        rtt_s=round(option.rtt_s, _RTT_DIGITS),
        age_s=(option.report_age_s or 0.0) // REPORT_EVERY_S * REPORT_EVERY_S,
    )


def _data(ask: RouteAsk, option: RouteOption) -> tuple[float, float]:
    """Seconds and money until all that the job reads is there."""
    time = cost = 0.0
    for name, gib in ask.inputs:
        if name not in option.datasets:
            by = option.routes.get(name, option.route)
            time += gib / by.gib_per_s
            cost += gib * by.egress_per_gib
    return time, cost


def _wait(ask: RouteAsk, shape: ShapeRoom) -> float:
    """Free is what was reported less what was offered since: without that every job of a burst goes to one cluster."""
    short = shape.offered + ask.ranks - shape.free
    if short <= 0:
        return shape.eta80_s if shape.queued else 0.0
    # The report's own estimate is for the whole job, now. Each rank that was offered before it and found no place waits
    # for a further one.
    queued = max(0, shape.offered - max(0, shape.free))
    return shape.eta80_s + queued * (1.0 / shape.drain_per_s if shape.drain_per_s > 0 else _STEP_S)
