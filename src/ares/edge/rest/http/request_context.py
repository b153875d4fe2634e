"""What is known of a request for its audit entry, filled in along its way."""

from typing import TYPE_CHECKING

from litestar.types import Scope

from ares.model.access import Principal

if TYPE_CHECKING:
    from ares.edge.rest.http.operation import Operation, Socket
    from ares.edge.rest.http.problems import Problem

NOTED = "ares_noted"


class Noted:
    """Facts about a request for the audit log. `who` is the authenticated caller, also of a refused request."""

    __slots__ = ("answered", "counts", "glass", "made", "problem", "route", "target", "who")

    def __init__(self) -> None:
        self.route: Operation | Socket | None = None
        self.who: Principal | None = None
        # The reason of break-glass access to another tenant; empty where none is needed.
        self.glass = ""
        self.problem: Problem | None = None
        # Whether its answer has begun: no other can be sent.
        self.answered = False
        # The tenant it asks about in its query or body.
        self.target = ""
        # What the request made, as "kind/id", and how many of what.
        self.made: tuple[str, ...] = ()
        self.counts: dict[str, int] = {}


def noted(scope: Scope) -> Noted:
    state = scope["state"]
    found = state.get(NOTED)
    if found is None:
        found = state[NOTED] = Noted()
    return found
