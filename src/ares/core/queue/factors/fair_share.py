"""How little the job's account has used of late."""

from ares.core.queue.factors.factor import ClassFacts, Floats, JobFacts
from ares.core.queue.shares import Shares
from ares.model.profile import OrderPolicy


def fair_share(facts: JobFacts, shares: Shares, _order: OrderPolicy, _now: float) -> float:
    return shares.fair_share(facts.account)


def fair_shares(facts: ClassFacts, shares: Shares, _order: OrderPolicy, _now: float) -> Floats:
    return facts.by_account(shares.fair_share)
