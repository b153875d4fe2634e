"""The choice: the cluster with the least sum, with everything it was decided by, and what would have changed it."""

from collections.abc import Iterable

from msgspec.structs import replace

from ares.core.routing.facts import RouteAsk, RouteOption, ShapeRoom
from ares.core.routing.filters import refused
from ares.core.routing.terms import fits, money, score, seconds, terms_of, weighed
from ares.model.cluster import RoutedCluster, RouteDecision, RouteFlip, RouteRefusal, RouteTerms, RouteWeights

# A job that is not confirmed yet moves only for a gain above both: less is within what reports are wrong by.
MOVE_SHARE, MOVE_S = 0.15, 60.0
# Clusters of a decision that are kept with the job.
RANKED_MAX, REFUSED_MAX = 8, 16


def route(ask: RouteAsk, options: Iterable[RouteOption], weights: RouteWeights | None = None) -> RouteDecision:
    weights = weights or RouteWeights()
    return decided((look(ask, option, weights) for option in options), weights)


def decided(looks: Iterable[RoutedCluster | RouteRefusal], weights: RouteWeights) -> RouteDecision:
    """Ties go to where most is left, then to the name that comes first: the same facts give the same choice."""
    ranked: list[RoutedCluster] = []
    refusals: list[RouteRefusal] = []
    for found in looks:
        if isinstance(found, RouteRefusal):
            refusals.append(found)
        else:
            ranked.append(found)
    ranked.sort(key=_order)
    return RouteDecision(ranked=tuple(ranked), refused=tuple(refusals), weights=weights)


def _order(routed: RoutedCluster) -> tuple[float, int, str]:
    return routed.score, routed.offered - routed.free, routed.cluster


def look(ask: RouteAsk, option: RouteOption, weights: RouteWeights) -> RoutedCluster | RouteRefusal:
    """One cluster: on the kind of its machines where the sum is least, of those where the job can pay and be in time;
    or why it does not come into question."""
    no = refused(ask, option)
    if no is not None:
        return no
    best: tuple[float, RouteTerms, ShapeRoom] | None = None
    for shape in option.shapes:
        if not fits(ask, shape):
            continue
        terms = terms_of(ask, option, shape)
        total = score(terms, weights)
        why = _unaffordable(ask, option.cluster, terms)
        if why is not None:
            no = no or why
        elif best is None or total < best[0]:
            best = total, terms, shape
    if best is None:
        assert no is not None, "a cluster with no machine for the job is refused before"
        return no
    total, terms, shape = best
    return RoutedCluster(
        cluster=option.cluster, terms=terms, score=total, incarnation=option.incarnation, seq=option.seq,
        machines=shape.words, free=shape.free, offered=shape.offered,
    )  # fmt: skip


def _unaffordable(ask: RouteAsk, cluster: str, terms: RouteTerms) -> RouteRefusal | None:
    cost, needed = money(terms), seconds(terms)
    if ask.budget is not None and cost > ask.budget:
        message = f"it would cost {cost:.2f}, and {ask.budget:.2f} are left"
        return RouteRefusal(cluster=cluster, code="budget", message=message)
    if ask.deadline_s is not None and needed > ask.deadline_s:
        message = f"the job would end there in {needed:.0f} s, and must within {ask.deadline_s:.0f} s"
        return RouteRefusal(cluster=cluster, code="deadline", message=message)
    return None


def shortened(decision: RouteDecision) -> RouteDecision:
    """As it is kept: of very many clusters the best, and some of those that were refused."""
    more = max(0, len(decision.ranked) - RANKED_MAX) + max(0, len(decision.refused) - REFUSED_MAX)
    if not more:
        return decision
    return replace(
        decision, ranked=decision.ranked[:RANKED_MAX], refused=decision.refused[:REFUSED_MAX], more=decision.more + more
    )


def recomputed(decision: RouteDecision) -> dict[str, float]:
    """Every cluster's sum, from the terms that were kept."""
    return {routed.cluster: score(routed.terms, decision.weights) for routed in decision.ranked}


def moves_to(decision: RouteDecision, current: str) -> str:
    """Where a job that was offered to `current`, and is not confirmed, should rather go; empty: it stays."""
    scores = {routed.cluster: routed.score for routed in decision.ranked}
    if not scores or decision.chosen == current:
        return ""
    if current not in scores:
        return decision.chosen
    gain = scores[current] - scores[decision.chosen]
    return decision.chosen if gain > max(MOVE_SHARE * scores[current], MOVE_S) else ""


def flip(decision: RouteDecision) -> RouteFlip | None:
    """Of all terms of the runner-up that could make it the winner by being less, the one that has to change least, as
    a part of itself. None: there is no runner-up, or no single term would do."""
    if len(decision.ranked) < 2:
        return None
    first, second = decision.ranked[:2]
    gap = second.score - first.score
    shares = weighed(second.terms, decision.weights)
    able = {name: share for name, share in shares.items() if share > gap}
    if not able:
        return None
    # The greatest share needs the smallest part of itself.
    name = max(sorted(able), key=lambda term: able[term])
    now = float(getattr(second.terms, name))
    return RouteFlip(cluster=second.cluster, term=name, now=now, flips_at=now * (1 - gap / able[name]))
