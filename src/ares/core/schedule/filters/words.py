"""Phrases that the messages of several filters share."""

from collections.abc import Callable

from ares.api.reasons import Reason, ReasonCode
from ares.core.ask import Ask
from ares.core.capacity.node_table import Ints
from ares.core.capacity.rule import Miss


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def cpus(milli: int) -> str:
    return f"{milli / 1000:g} CPU{'' if milli == 1000 else 's'}"


def mib(amount: int) -> str:
    return f"{amount:,} MiB"


def gpus(ask: Ask) -> str:
    share = "" if ask.gpu_milli == 1000 else f"{ask.gpu_milli / 10:g} % of "
    model = f" of model {ask.gpu_model}" if ask.gpu_model else ""
    memory = f" with {mib(ask.gpu_memory_mib)} or more" if ask.gpu_memory_mib else ""
    return f"{share}{counted(ask.gpus, 'GPU')}{model}{memory}"


def pairs(labels: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels)


def none_of(miss: Miss, which: str = "") -> str:
    count = len(miss.reached)
    return f"not even {miss.name(int(miss.reached[0]))}" if count == 1 else f"none of the {count:,} nodes{which}"


def too_little(
    miss: Miss,
    codes: tuple[ReasonCode, ReasonCode],
    needs: str,
    asked: int,
    columns: tuple[Ints, Ints],
    show: Callable[[int], str] = str,
) -> Reason:
    """Too little of a quantity that one node must have. `codes`: if never, and if not now. `columns`: free, in all."""
    best = miss.nearest(columns[1] if miss.ever else columns[0])
    free, total = (int(column[best]) for column in columns)
    numbers = {"asked": asked, "free": free, "total": total, "nodes": len(miss.reached)}
    if miss.ever:
        has = f"the largest that could take it, {miss.name(best)}, has {show(total)}"
    else:
        has = f"the nearest, {miss.name(best)}, has {show(free)} free of {show(total)}"
    return Reason(code=codes[0 if miss.ever else 1], message=f"needs {needs} on one node; {has}", numbers=numbers)
