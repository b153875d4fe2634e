"""What clusters told of one day, made one: counters by (cluster, incarnation), of which none ever falls.

A cluster that was restored from a backup tells its open day anew, under a later incarnation, and without what the
backup did not have. Of each counter the greater one counts: nothing that was told is taken back, and what both have
counts once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import zip_longest
from typing import Final

from msgspec.structs import replace

from ares.core.books.draft import used_on_the_day
from ares.model.books.book import BookLine, PlatformBook, PoolDay, SlaLine, TenantBook
from ares.model.state import Phase

_AMOUNTS: Final = ("gpu_ms", "cpu_ms", "joules", "micro")
_POOL_AMOUNTS: Final = ("gpu_ms", "down_gpu_ms", "cpu_ms", "micro", "idle_joules")
_LineGroup = tuple[str, str, str]


def merged_book(books: Sequence[TenantBook]) -> TenantBook:
    """Books of one tenant and day of one cluster, one for each incarnation, in any order."""
    if len(books) == 1:
        return books[0]
    newest = max(books, key=lambda book: book.incarnation)
    worst = {missed.job: missed for book in books for missed in book.worst}
    ended: dict[Phase, int] = {}
    for book in books:
        for phase, number in book.ended.items():
            ended[phase] = max(number, ended.get(phase, 0))
    return replace(
        newest,
        settled=_lines([_counters(book) for book in books]),
        accrued=(),
        opening=(),
        ended=ended,
        failures=dict(reduce(_most, (Counter(book.failures) for book in books))),
        elsewhere=dict(reduce(_most, (Counter(book.elsewhere) for book in books))),
        sla=_promises(books),
        waits=tuple(max(counts) for counts in zip_longest(*(book.waits for book in books), fillvalue=0)),
        worst=tuple(sorted(worst.values(), key=lambda missed: (-missed.late_s, missed.job))[:20]),
    )


def merged_day(days: Sequence[PlatformBook]) -> PlatformBook:
    """A cluster's own book of one day, of each incarnation."""
    if len(days) == 1:
        return days[0]
    pools: dict[str, PoolDay] = {}
    for day in days:
        for name, had in day.pools.items():
            before = pools.get(name, PoolDay())
            pools[name] = PoolDay(**{key: max(getattr(had, key), getattr(before, key)) for key in _POOL_AMOUNTS})
    newest = max(days, key=lambda day: day.incarnation)
    tenants = sorted({tenant for day in days for tenant in day.tenants})
    return replace(newest, pools=pools, tenants=tuple(tenants), assumed_s=max(day.assumed_s for day in days))


def _counters(book: TenantBook) -> dict[_LineGroup, dict[str, list[int]]]:
    """Kept, lost, and held in all, which has what still runs: each of them only grows."""
    found: dict[_LineGroup, dict[str, list[int]]] = {}
    for line in used_on_the_day(book):
        sums = found.setdefault((line.team, line.pool, line.gpu_model), {})
        amounts = [getattr(line, name) for name in _AMOUNTS]
        for fate in ("held",) if line.fate == "open" else ("held", line.fate):
            sums[fate] = [so_far + amount for so_far, amount in zip(sums.get(fate, [0] * 4), amounts, strict=True)]
    return found


def _lines(told: Sequence[Mapping[_LineGroup, Mapping[str, list[int]]]]) -> tuple[BookLine, ...]:
    found: list[BookLine] = []
    for group in sorted({group for counters in told for group in counters}):
        kept, lost, held = (
            [max(amounts) for amounts in zip(*(c.get(group, {}).get(fate, [0] * 4) for c in told), strict=True)]
            for fate in ("kept", "lost", "held")
        )
        open_ = [all_ - useful - gone for all_, useful, gone in zip(held, kept, lost, strict=True)]
        team, pool, gpu_model = group
        for fate, amounts in (("kept", kept), ("lost", lost), ("open", open_)):
            if any(amounts):
                gpu_ms, cpu_ms, joules, micro = amounts
                line = BookLine(team=team, pool=pool, gpu_model=gpu_model, gpu_ms=gpu_ms, cpu_ms=cpu_ms)
                found.append(replace(line, fate=fate, joules=joules, micro=micro))
    return tuple(found)


def _promises(books: Sequence[TenantBook]) -> tuple[SlaLine, ...]:
    found: dict[tuple[str, str], SlaLine] = {}
    for line in (line for book in books for line in book.sla):
        known = found.get((line.name, line.cluster), SlaLine(name=line.name, cluster=line.cluster))
        counts = {key: max(getattr(line, key), getattr(known, key)) for key in ("met", "missed", "excluded")}
        found[line.name, line.cluster] = replace(known, **counts)
    return tuple(line for _, line in sorted(found.items()))


def _most(one: Counter[str], other: Counter[str]) -> Counter[str]:
    return one | other
