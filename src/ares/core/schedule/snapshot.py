"""What one cycle decides on. Nobody changes it once it is made."""

from dataclasses import dataclass
from typing import NamedTuple

from ares.core.queue.order import Rank
from ares.core.queue.waiting import Shape
from ares.core.schedule.columns import Columns
from ares.model.node import NodeRecord


class Identity(NamedTuple):
    """Who sits in a node slot: a grant is made to one incarnation of the agent."""

    name: str
    incarnation: int


NOBODY = Identity("", 0)


def identity(record: NodeRecord | None) -> Identity:
    return NOBODY if record is None else Identity(record.info.name, record.incarnation)


class WaitingClass(NamedTuple):
    """Waiting jobs of one shape: how many there are, and the first of them in order."""

    id: int
    shape: Shape
    jobs: int
    heads: tuple[Rank, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    columns: Columns
    nodes: tuple[Identity, ...]
    classes: tuple[WaitingClass, ...]
