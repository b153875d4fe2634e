"""Books: whatever happens when, all that jobs used is in exactly one day, and the parts make the whole."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.api.books.costs import CostBy, CostRow
from ares.core.books.capacity import extended, measured
from ares.core.books.costs import CostSum
from ares.core.books.days import DAY_S, after, day_end, day_of, day_start
from ares.core.books.draft import DayDraft, book_day, used_on_the_day
from ares.core.books.lines import BookSum
from ares.core.books.told import merged_book
from ares.core.energy import spend
from ares.core.lifecycle.usage_report import parts_of
from ares.model.books.book import BookLine, CapacityRecord, PoolDay, PoolRate, TenantBook
from ares.model.state import JobState, Placement, Rate

FIRST = "2026-03-01"
START = day_start(FIRST)
DAYS = 4
HOUR = 3600.0


class Life(NamedTuple):
    """A job by the true time; `skew_s` is by how much the clock is wrong that its end is told by."""

    submitted: float
    bound: float
    ended: float
    skew_s: float
    gpus: int
    pool: str
    lost: bool
    team: str


def _life(at: float, waits: float, lasts: float, skew_s: float, gpus: int, pool: str, lost: bool, team: str) -> Life:
    bound = START + at + waits
    return Life(START + at, bound, bound + lasts, skew_s, gpus, pool, lost, team)


lives = st.builds(
    _life,
    st.floats(0, (DAYS - 2) * DAY_S),
    st.floats(0, 5 * HOUR),
    st.floats(0.5, 2 * DAY_S),
    st.one_of(st.just(0.0), st.floats(-6 * HOUR, 6 * HOUR)),
    st.integers(0, 8),
    st.sampled_from(["gold", "iron"]),
    st.booleans(),
    st.sampled_from(["", "red"]),
)


def _state(number: int, life: Life, now: float, until: float) -> JobState:
    """As the store has it at the true time `now`, where ends before `until` belong to the next day."""
    usual = JobState(id=f"j{number}", tenant="t", name="n", team=life.team or None, submitted_at=life.submitted)
    place = Placement(node="n", incarnation=1, cpu_milli=500, memory_mib=1, gpus=tuple(range(life.gpus)))
    rate = Rate(pool=life.pool, gpu_model="A100" if life.gpus else "", watts=100.0, per_hour=1.37 * life.gpus)
    if now < life.bound:
        return usual
    if now < life.ended:
        return replace(
            usual, phase="RUNNING", bound_at=life.bound, placements=(place,), rates=(rate,),
            started_at=life.bound,
        )  # fmt: skip
    ended = max(life.bound, life.ended + life.skew_s)
    spent = spend((place,), (rate,), ended - life.bound, "lost" if life.lost else "kept")
    return replace(
        usual, phase="FAILED" if life.lost else "SUCCEEDED", bound_at=life.bound, ended_at=ended,
        spent=spent,
        gpu_s=sum(part.gpu_s for part in spent), cpu_s=sum(part.cpu_s for part in spent),
        book_day=day_of(until) if ended < until else "",
    )  # fmt: skip


def _closed(many: list[Life], late_s: list[float]) -> list[TenantBook]:
    """The days one after the other, each announced and closed a while after its end."""
    announced = [(START, START)]
    books: list[TenantBook] = []
    day, at, opening, states = FIRST, START, tuple[BookLine, ...](), list[JobState]()
    for number in range(DAYS + 3):
        at = max(at, day_end(day) + 300.0 + late_s[number % len(late_s)])
        announced.append((at, day_end(day)))
        at += 60.0

        def until(ended: float) -> float:
            return max(end for heard, end in announced if heard <= ended or heard == START)

        states = [_state(n, life, at, until(life.ended)) for n, life in enumerate(many)]
        draft = DayDraft("t", day, at, opening)
        draft.add(states)
        book = draft.book()
        books.append(book)
        day, opening = after(day), book.accrued
    # All have ended, and are counted.
    assert all(book_day(state) < day for state in states)
    return books


@settings(max_examples=40)
@given(st.lists(lives, max_size=12), st.lists(st.floats(0, 9 * HOUR), min_size=1, max_size=5))
def test_all_that_was_used_is_in_the_books_and_nothing_twice(many: list[Life], late_s: list[float]) -> None:
    """However late days are closed, and whatever clocks say about the ends of jobs."""
    books = _closed(many, late_s)
    whole = BookSum()
    for number, life in enumerate(many):
        state = _state(number, life, life.ended + 1.0, START)
        whole.add(state.team or "", parts_of(state, 0.0))
    used = BookSum()
    for book in books:
        used.add_lines(used_on_the_day(book))
    # By team, pool, model and what came of it: also what ran in between has become one or the other.
    assert used.lines() == whole.lines()
    assert sum(sum(book.ended.values()) for book in books) == len(many)


@settings(max_examples=40)
@given(st.lists(lives, max_size=8), st.sampled_from(["day", "tenant", "team", "pool", "gpu-model", "cluster"]),
       st.lists(st.integers(0, 40), min_size=2, max_size=2))  # fmt: skip
def test_the_parts_always_make_the_capacity(many: list[Life], by: CostBy, gpus: list[int]) -> None:
    """Useful, lost, running and idle are the capacity and what was held beyond it, in hours and in money."""
    found = CostSum(by, "")
    for book in _closed(many, [0.0]):
        found.add(book)
        had = {
            name: PoolDay(gpu_ms=count * 86_400_000, micro=count * 24 * 1_370_000)
            for name, count in zip(("gold", "iron"), gpus, strict=True)
        }
        found.add_capacity(book.day, had)
    rows, total, groups = found.rows(1000)
    assert groups == len(rows)
    _whole(total)
    assert all(row.idle_gpu_hours >= 0 and row.idle_cost >= 0 for row in rows)
    for names in (("useful_gpu_hours", "lost_gpu_hours", "running_gpu_hours", "idle_gpu_hours"), ("cost", "idle_cost")):
        for name in names:
            assert abs(sum(getattr(row, name) for row in rows) - getattr(total, name)) < 1e-6
    if by in ("day", "pool", "cluster"):
        for row in rows:
            _whole(row)


def _whole(row: CostRow) -> None:
    hours = row.useful_gpu_hours + row.lost_gpu_hours + row.running_gpu_hours + row.idle_gpu_hours
    assert abs(hours - row.capacity_gpu_hours - row.over_gpu_hours) < 1e-6
    money = row.useful_cost + row.lost_cost + row.running_cost + row.idle_cost
    assert abs(money - row.capacity_cost - row.over_cost) < 1e-6
    assert abs(row.cost + row.idle_cost - row.capacity_cost - row.over_cost) < 1e-6


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(0.01, 30 * HOUR), st.integers(0, 9)), min_size=1, max_size=30))
def test_capacity_is_measured_over_all_the_time_and_by_day(looks: list[tuple[float, int]]) -> None:
    known: dict[str, CapacityRecord] = {}
    now, gpus, wanted = START + 5.0, 0, 0.0
    for record in measured(known, {"p": PoolRate(gpus=0)}, now):
        known[record.day] = record
    for passed_s, more in looks:
        wanted += passed_s * gpus
        now, gpus = now + passed_s, more
        for record in measured(known, {"p": PoolRate(gpus=gpus)}, now):
            known[record.day] = record
    had = sum(record.pools.get("p", PoolDay()).gpu_ms for record in known.values())
    assert abs(had - 1000 * wanted) <= 10 * len(looks) * len(known)
    for record in known.values():
        assert record.until <= day_end(record.day)
        assert extended(record, record.until - 1.0) == record


@settings(max_examples=40)
@given(st.lists(lives, max_size=6), st.floats(0, (DAYS - 1) * DAY_S), st.floats(0, DAY_S))
def test_what_a_cluster_told_before_its_store_was_restored_is_never_taken_back(
    many: list[Life], looked: float, more: float
) -> None:
    """One day as told at two moments, the earlier one by a later incarnation: no counter is below either, none is the
    sum, and the order makes no difference."""
    day = day_of(START + looked)
    early, late = START + looked, min(START + looked + more, day_end(day) - 1.0)
    told = [_told(many, day, late, 1), _told(many, day, early, 2)]
    merged = merged_book(told)
    assert merged == merged_book(told[::-1])
    assert merged_book([merged, *told]) == merged
    held = [sum(line.gpu_ms for line in used_on_the_day(book)) for book in (*told, merged)]
    assert held[2] >= max(held[:2])
    # The earlier look saw nothing that the later one did not.
    assert held[2] == held[0] or any(life.skew_s for life in many)
    assert sum(merged.ended.values()) >= max(sum(book.ended.values()) for book in told)


def _told(many: list[Life], day: str, now: float, incarnation: int) -> TenantBook:
    draft = DayDraft("t", day, now, None)
    draft.add([_state(number, life, now, START) for number, life in enumerate(many) if life.submitted <= now])
    return replace(draft.book(), incarnation=incarnation)
