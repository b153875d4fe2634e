"""Turns on the link: weighted max-min within rates, in virtual time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ares.core.transfer.turns import BURST_S, CHUNK_BYTES, LINK_SHARE, PieceGrant, TransferTurns, TurnWait

MIB = 1 << 20


def carried(turns: TransferTurns[str], seconds: float, wants: dict[str, float], now: float = 0.0) -> dict[str, int]:
    """Bytes granted in that time to tenants that ask for so many bytes per second, all that time."""
    moved, asked, began = dict.fromkeys(wants, 0), dict.fromkeys(wants, 0), now
    step = 0.05
    while now < began + seconds:
        for tenant, rate in wants.items():
            due = int(rate * (now - began + step)) - asked[tenant]
            if due > 0:
                asked[tenant] += due
                turns.ask(tenant, due, tenant)
        until = now + step
        while now < until:
            match turns.pick(now):
                case PieceGrant(tenant=tenant, size=size):
                    moved[tenant] += size
                case TurnWait(seconds=wait_s):
                    now += min(wait_s, until - now) + 1e-9
                case None:
                    now = until
    return moved


def max_min(capacity: float, ceilings: dict[str, float], weights: dict[str, int]) -> dict[str, float]:
    """Water filling: what weighted max-min gives, written without knowing the product."""
    share, left, open_ = dict.fromkeys(ceilings, 0.0), capacity, set(ceilings)
    while open_ and left > 1e-9:
        level = left / sum(weights[name] for name in open_)
        full = {name for name in open_ if ceilings[name] - share[name] <= level * weights[name]}
        for name in full or open_:
            more = min(ceilings[name] - share[name], level * weights[name])
            share[name] += more
            left -= more
        if not full:
            break
        open_ -= full
    return share


@settings(max_examples=25, deadline=None)
@given(
    link=st.integers(20, 200),
    tenants=st.lists(
        st.tuples(st.integers(1, 4), st.one_of(st.none(), st.integers(2, 100)), st.integers(1, 300)),
        min_size=1,
        max_size=5,
    ),
)
def test_the_link_is_shared_by_weighted_max_min(link: int, tenants: list[tuple[int, int | None, int]]) -> None:
    turns = TransferTurns[str](link * MIB, 0.0)
    names = [f"t{number}" for number in range(len(tenants))]
    wants, weights, ceilings = dict[str, float](), dict[str, int](), dict[str, float]()
    for name, (weight, rate, demand) in zip(names, tenants, strict=True):
        turns.set_rate(name, None if rate is None else rate * MIB, 0.0, weight)
        wants[name], weights[name] = demand * MIB, weight
        ceilings[name] = min(demand, demand if rate is None else rate) * MIB
    carried(turns, 1.0, wants)
    seconds = 10.0
    moved = carried(turns, seconds, wants, 1.0)
    # The backlog of the first second makes demand a little more than its rate, where nothing else limits it.
    right = max_min(link * LINK_SHARE * MIB, ceilings, weights)
    for name in names:
        slack = 0.03 * link * MIB + (CHUNK_BYTES + BURST_S * right[name]) / seconds * 2 + 0.1 * wants[name]
        assert moved[name] / seconds <= right[name] + slack
        if wants[name] > right[name] * 1.1:
            assert moved[name] / seconds >= right[name] * 0.97 - 2 * CHUNK_BYTES / seconds


def test_flooding_tenants_get_the_same_within_a_chunk() -> None:
    turns = TransferTurns[str](100 * MIB, 0.0)
    wants = {"a": 500.0 * MIB, "b": 120.0 * MIB, "c": 60.0 * MIB}
    carried(turns, 1.0, wants)
    moved = carried(turns, 5.0, wants, 1.0)
    assert max(moved.values()) - min(moved.values()) <= 2 * CHUNK_BYTES
    assert sum(moved.values()) == pytest.approx(5 * LINK_SHARE * 100 * MIB, rel=0.01)


def test_what_a_tenant_may_not_use_goes_to_the_others() -> None:
    turns = TransferTurns[str](100 * MIB, 0.0)
    turns.set_rate("a", 10 * MIB, 0.0)
    moved = carried(turns, 5.0, {"a": 200 * MIB, "b": 200 * MIB})
    assert moved["a"] == pytest.approx(52 * MIB, rel=0.02)
    assert moved["b"] == pytest.approx(5.2 * 90 * MIB - 52 * MIB, rel=0.02)


def test_a_tenant_that_stops_and_goes_gains_nothing() -> None:
    turns = TransferTurns[str](0, 0.0)
    turns.set_rate("a", 10 * MIB, 0.0)
    moved, now = 0, 0.0
    for _ in range(10):
        moved += carried(turns, 0.5, {"a": 100 * MIB}, now)["a"]
        turns.forget("a", "a")
        now += 1.0
    # Of every second half is used; a pause earns the burst and no more.
    assert moved <= 10 * (0.5 + BURST_S) * 10 * MIB + CHUNK_BYTES


def test_urgent_bytes_get_four_times_as_much_and_stay_within_the_rate() -> None:
    turns = TransferTurns[str](100 * MIB, 0.0)
    for tenant in ("a", "b"):
        turns.ask(tenant, 1000 * MIB, tenant, urgent=tenant == "a")
    moved = carried(turns, 5.0, {"a": 0, "b": 0})
    assert moved["a"] / moved["b"] == pytest.approx(4.0, rel=0.02)
    turns.set_rate("a", MIB, 5.0)
    assert carried(turns, 5.0, {"a": 0, "b": 0}, 5.0)["a"] <= 5.2 * MIB + CHUNK_BYTES


def test_a_piece_that_is_larger_than_the_burst_passes_and_is_paid_for() -> None:
    turns = TransferTurns[str](0, 0.0)
    turns.set_rate("a", 1000.0, 0.0)
    turns.ask("a", 2 * CHUNK_BYTES, "a")
    assert turns.pick(0.0) == PieceGrant("a", CHUNK_BYTES, "a", last=False)
    wait = turns.pick(0.0)
    assert isinstance(wait, TurnWait)
    assert wait.seconds == pytest.approx(CHUNK_BYTES / 1000.0, rel=1e-4)
    assert turns.pick(wait.seconds + 0.001) == PieceGrant("a", CHUNK_BYTES, "a", last=True)
    assert turns.pick(9e9) is None


def test_a_wish_that_is_withdrawn_leaves_the_others_in_turn() -> None:
    turns = TransferTurns[str](0, 0.0)
    for asker in ("x", "y"):
        turns.ask("a", CHUNK_BYTES, asker)
    turns.ask("b", CHUNK_BYTES, "z")
    turns.forget("a", "x")
    turns.forget("a", "unknown")
    turns.forget("nobody", "x")
    assert list(turns.waiting()) == [("a", "y", CHUNK_BYTES), ("b", "z", CHUNK_BYTES)]
    turns.forget("a", "y")
    assert [turns.pick(0.0), turns.pick(0.0)] == [PieceGrant("b", CHUNK_BYTES, "z", last=True), None]


def test_a_clock_that_goes_back_earns_nothing() -> None:
    turns = TransferTurns[str](0, 1000.0)
    turns.set_rate("a", MIB, 1000.0)
    turns.ask("a", 100 * MIB, "a")
    while isinstance(turns.pick(1000.0), PieceGrant):
        pass
    assert isinstance(turns.pick(0.0), TurnWait)
    assert isinstance(turns.pick(1000.0), TurnWait)
