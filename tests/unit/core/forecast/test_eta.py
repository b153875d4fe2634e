"""When waiting jobs start: supply, work ahead, and intervals judged by the starts that come."""

import random
from itertools import accumulate, pairwise
from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.core.ask import Ask
from ares.core.forecast.eta import LONGEST_S, Etas, EtasData, Wait, eta
from ares.core.queue.backlog import Backlog
from ares.core.starts.wait import HeldSupply, Supply

HELD = st.lists(st.builds(HeldSupply, st.integers(1, 50), st.floats(1.0, 1e5) | st.just(inf)), max_size=12)


def free_at(free: float, held: list[HeldSupply], at: float) -> float:
    return free + sum(one.amount for one in held if one.left_s <= at)


@given(st.integers(0, 50), HELD, st.integers(1, 300))
def test_supply_opens_at_the_first_end_that_leaves_enough(free: int, held: list[HeldSupply], amount: int) -> None:
    said = Supply(free, held).opens_s(amount)
    moments = sorted({0.0, *(one.left_s for one in held if one.left_s < inf)})
    truth = next((at for at in moments if free_at(free, held, at) >= amount), inf)
    assert said == truth


@given(st.integers(0, 50), HELD, st.floats(1.0, 1e7))
def test_work_is_done_when_as_much_was_free(free: int, held: list[HeldSupply], work: float) -> None:
    said = Supply(free, held).drained_s(work)
    if said == inf:
        assert free_at(free, held, 1e9) == 0
        return
    ends = sorted({0.0, said, *(one.left_s for one in held if one.left_s < said)})
    done = sum(free_at(free, held, a) * (b - a) for a, b in pairwise(ends) if b <= said)
    assert done == pytest.approx(work, rel=1e-6)


# ---- what waits ahead

CPU, GPU, H100 = Ask(cpu_milli=1000), Ask(gpus=1), Ask(gpus=1, gpu_model="H100")


def test_ahead_is_what_came_before_matters_as_much_and_is_no_longer() -> None:
    backlog = Backlog()
    backlog.add("short", CPU, 2, 10.0)
    backlog.add("long", CPU, 2, 10_000.0)
    backlog.add("mine", CPU, 2, 100.0)
    backlog.add("later", CPU, 2, 10.0)
    assert backlog.ahead("mine") == 1000 * 10.0
    backlog.add("urgent", CPU, 0, 50.0)
    assert backlog.ahead("mine") == 1000 * (10.0 + 50.0), "who matters more comes first, whenever it came"
    backlog.add("idle", CPU, 4, 1.0)
    backlog.add("gpu", GPU, 2, 1.0)
    assert backlog.ahead("mine") == 1000 * 60.0
    backlog.remove("short")
    assert backlog.ahead("mine") == 1000 * 50.0
    assert backlog.ahead("gone") == 0.0


def test_those_who_take_any_model_compete_with_those_who_want_one() -> None:
    backlog = Backlog()
    backlog.add("any", GPU, 2, 100.0)
    backlog.add("h100", H100, 2, 100.0)
    assert backlog.ahead("h100") == 1000 * 100.0
    assert backlog.ahead_of_new(GPU, 2, 100.0) == 1000 * 100.0
    assert backlog.ahead_of_new(H100, 2, inf) == 2 * 1000 * 100.0


def test_many_that_wait_are_counted_however_they_come_and_leave() -> None:
    backlog, waiting = Backlog(), dict[str, float]()
    for number in range(1500):
        backlog.add(f"job-{number}", CPU, 2, 64.0 + number % 7)
        waiting[f"job-{number}"] = 1000 * (64.0 + number % 7)
        gone = f"job-{number // 2 if number % 3 else number * 7 % 1500}"
        backlog.remove(gone)
        waiting.pop(gone, None)
        if number % 50 == 0:
            ahead = list(accumulate(waiting.values(), initial=0.0))
            assert [backlog.ahead(job) for job in waiting] == ahead[:-1]
            assert backlog.ahead_of_new(CPU, 2, 100.0) == ahead[-1]
    for job in waiting:
        backlog.remove(job)
    assert (len(backlog), backlog.ahead_of_new(CPU, 2, 100.0)) == (0, 0.0)


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(1.0, 1e5), st.booleans()), max_size=60))
def test_it_counts_like_a_plain_list(steps: list[tuple[int, float, bool]]) -> None:
    backlog, plain = Backlog(), dict[str, float]()
    for number, runs_s, stays in steps:
        job = f"j{number}"
        plain.pop(job, None)
        if stays:
            plain[job] = runs_s
            backlog.add(job, CPU, 2, runs_s)
        else:
            backlog.remove(job)
    assert len(backlog) == len(plain)
    assert backlog.ahead_of_new(CPU, 2, 1e9) == pytest.approx(sum(1000 * one for one in plain.values()))


# ---- intervals


def test_four_of_five_starts_are_within_what_was_told_though_waits_are_told_badly() -> None:
    """Waits get three times longer half-way, which nobody foresaw; each is judged only when it started."""
    etas, chance = Etas(), random.Random(5)
    open_: list[tuple[float, str]] = []
    judged: list[bool] = []
    for number in range(4000):
        now = 60.0 * number
        for at, job in [one for one in open_ if one[0] <= now]:
            open_.remove((at, job))
            within = etas.started(job, at)
            assert within is not None
            judged.append(within)
        said = chance.uniform(60.0, 3600.0)
        truth = said * chance.lognormvariate(0.0 if number < 2000 else 1.1, 0.7)
        etas.give(f"j{number}", Wait(said, 0.1), now)
        open_.append((now + truth, f"j{number}"))
    assert sum(judged) / len(judged) == pytest.approx(0.8, abs=0.03)
    assert (etas.first.given, etas.first.rate) == (len(judged), sum(judged) / len(judged))


def test_the_first_and_the_latest_are_judged_apart_and_nobody_twice() -> None:
    etas = Etas()
    etas.give("j", Wait(36_000.0, 0.5), 0.0)
    etas.give("j", Wait(10.0, 0.5), 100.0)
    assert etas.started("j", 115.0) is False, "it was told hours first"
    assert etas.started("j", 115.0) is None
    assert (etas.first.within, etas.latest.within) == (0, 1)
    etas.give("k", Wait(10.0, 0.5), 0.0)
    etas.gone("k")
    assert etas.started("k", 5.0) is None
    kept = Etas(msgspec.json.decode(msgspec.json.encode(etas.data), type=EtasData))
    assert (kept.first, kept.interval(Wait(36_000.0, 0.5))) == (etas.first, etas.interval(Wait(36_000.0, 0.5)))


def test_nobody_can_say() -> None:
    told = eta(Etas(), Wait(LONGEST_S, 0.5, "they do not say"), 1000.0)
    assert (told.earliest, told.latest, told.basis, told.computed_at) == (1000.0, None, "they do not say", 1000.0)
    sure = eta(Etas(), Wait(600.0, 0.5), 1000.0)
    assert sure.latest is not None
    assert 1000.0 <= sure.earliest < 1600.0 < sure.latest
