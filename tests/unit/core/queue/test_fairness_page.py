"""The worked example of the page on fairness: every number in it is computed here and looked for there."""

from pathlib import Path

import pytest

from ares.core.ask import Ask
from ares.core.queue.drf import Amounts
from ares.core.queue.factors import JobFacts, explain, rank
from ares.core.queue.shares import Shares
from ares.core.queue.usage import DecayedUsage
from ares.core.schedule.preempt.eligible import eligible
from ares.core.schedule.preempt.holders import Asker, EvictionCandidate
from ares.model.profile import OrderPolicy, PreemptionPolicy, Share

PAGE = (Path(__file__).parents[4] / "docs" / "concepts" / "fairness.md").read_text()
GIB, HOUR = 1024, 3600.0
NOW = 100 * HOUR
ORDER = OrderPolicy()
CLUSTER = Amounts(64_000, 512 * GIB, 16_000)
TREE = {"vision": Share(weight=2.0), "speech": Share(weight=1.0)}
ANA, BEN = "vision/detect/ana", "speech/asr/ben"
HOLDS = {ANA: Amounts(12_000, 96 * GIB, 6000), BEN: Amounts(32_000, 64 * GIB, 4000)}
USED = {ANA: 300, BEN: 100}
SOFT = {"vision": {"gpu": 10_000, "cpu": 40_000}, "speech": {"gpu": 6000, "cpu": 24_000}}
ASKS = Ask(1000, GIB, 1)
WAITED_H = {ANA: 3, BEN: 4}


@pytest.fixture
def usage() -> DecayedUsage:
    usage = DecayedUsage(ORDER.half_life_s)
    for account, hours in USED.items():
        usage.charge(account, hours * HOUR, 0.0, at=NOW)
    return usage


@pytest.fixture
def shares(usage: DecayedUsage) -> Shares:
    shares = Shares(CLUSTER, TREE, usage, NOW)
    for account, held in HOLDS.items():
        shares.take(account, held)
    return shares


def _row(*cells: object) -> str:
    return "| " + " | ".join(f"{cell}" for cell in cells) + " |"


@pytest.mark.parametrize("account", [ANA, BEN])
def test_dominant_share(shares: Shares, account: str) -> None:
    cpu, memory, gpu = (some / whole for some, whole in zip(HOLDS[account], CLUSTER, strict=True))
    held, weight = HOLDS[account], TREE[account.split("/", maxsplit=1)[0]].weight
    holds = f"{held.gpu_milli // 1000} GPUs, {held.cpu_milli // 1000} CPUs, {held.memory_mib // GIB} GiB"
    dominant = f"{max(cpu, memory, gpu):.4f} ÷ {weight:.0f} = {shares.dominant(account):.4f}"
    assert _row(account, holds, f"{gpu:.4f}", f"{cpu:.4f}", f"{memory:.4f}", dominant) in PAGE


@pytest.mark.parametrize("account", [ANA, BEN])
def test_rank(shares: Shares, account: str) -> None:
    facts = JobFacts(2, NOW - WAITED_H[account] * HOUR, None, account, ask=ASKS)
    terms = [f"{one.product:.2f}" for one in explain(facts, shares, ORDER, NOW) if one.sum == "primary"]
    assert _row(account, *terms, f"{rank(facts, shares, ORDER, NOW)[0]:.2f}") in PAGE


def test_soft_limits() -> None:
    rows = [("vision", ANA, "within its own"), ("speech", BEN, "borrows 8 CPUs")]
    for tenant, account, word in rows:
        own, held = SOFT[tenant], HOLDS[account]
        assert (
            _row(tenant, own["gpu"] // 1000, held.gpu_milli // 1000, own["cpu"] // 1000, held.cpu_milli // 1000, word)
            in PAGE
        )
    standing = {tenant: HOLDS[account].cpu_milli - SOFT[tenant]["cpu"] for tenant, account, _ in rows}
    assert standing["speech"] == 8000
    of_ben = EvictionCandidate("b", 2, BEN, 0, 8000, 100.0, 100.0, 0, None, True, ())
    for cpus, why in ((28, None), (29, "asker-would-borrow")):
        asker = Asker("a", 2, ANA, standing, 1000 * cpus)
        assert eligible(of_ben, asker, PreemptionPolicy(), "reclaim") == why
    assert "A job of 28 CPUs" in PAGE
    assert "one of 29 CPUs" in PAGE


@pytest.mark.parametrize("account", [ANA, BEN])
def test_fair_share(usage: DecayedUsage, account: str) -> None:
    used, weight = USED[account] / sum(USED.values()), TREE[account.split("/", maxsplit=1)[0]].weight / 3
    tenant = 2 ** -(used / weight)
    fair = usage.normalised(account, NOW, TREE)
    assert fair == pytest.approx((4 * tenant + 3 * 0.5) / 7)
    assert _row(account, f"{used:.4f}", f"{weight:.4f}", f"{tenant:.4f}", f"{fair:.4f}") in PAGE


def test_a_week_later(usage: DecayedUsage) -> None:
    later = NOW + 7 * 24 * HOUR
    assert f"Ana's 300 count {usage.of(ANA, later):.0f} and Ben's 100 count {usage.of(BEN, later):.0f};" in PAGE


def test_bound_on_waiting() -> None:
    weights = {one.name: one.weight for one in ORDER.primary}
    hours = ORDER.ageing_s / HOUR
    bounded = (
        4 * weights["priority"] + 3 * weights["drf"] + sum(weights[name] for name in ("deadline", "fair-share", "size"))
    )
    assert f"= {hours * bounded / weights['age']:.1f} h" in PAGE
    assert f"{hours * 4 * weights['priority'] / weights['age']:.0f} h from BEST_EFFORT to CRITICAL" in PAGE


def test_factors_and_weights_are_those_of_the_profile() -> None:
    for one in ORDER.primary:
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{one.name}` |"))
        assert row.endswith(f"| {one.weight:.0f} |")
    assert "(`halfLifeS`, a week by default)" in PAGE
    assert ORDER.half_life_s == 7 * 24 * HOUR
