"""How little the job's account holds at present: its tenant, its team in it, its user in that. From 1 down to -2: where
a tenant holds the whole cluster, its teams and users are still told apart."""

from ares.core.queue.factors.factor import ClassFacts, Floats, JobFacts
from ares.core.queue.shares import Shares
from ares.model.profile import OrderPolicy


def drf(facts: JobFacts, shares: Shares, _order: OrderPolicy, _now: float) -> float:
    return 1.0 - shares.in_depth(facts.account)


def drfs(facts: ClassFacts, shares: Shares, _order: OrderPolicy, _now: float) -> Floats:
    return facts.by_account(lambda account: 1.0 - shares.in_depth(account))
