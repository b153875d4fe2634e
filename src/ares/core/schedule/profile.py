"""What a cycle goes by: the order of filters, the weights of scorers, and its limits."""

from typing import Annotated

from msgspec import Meta

from ares.model.base import Record


class Weight(Record, frozen=True):
    scorer: str
    weight: Annotated[float, Meta(ge=0.0, le=1000.0)]


class Profile(Record, frozen=True):
    """Names are keys of `filters.FILTERS` and `scorers.SCORERS`."""

    # The reason given is that of the first filter that leaves no node: the more lasting ones come first.
    filters: tuple[str, ...] = ("selector", "health", "gpus", "cpu", "memory")
    scorers: tuple[Weight, ...] = (Weight(scorer="fit", weight=30.0), Weight(scorer="balance", weight=20.0))
    # Keeps one cycle short, so that the loop around it stays responsive.
    max_placements_per_cycle: Annotated[int, Meta(ge=1, le=100_000)] = 512
