"""Accounts form a tree of tenants, teams and users. What a profile declares of it, found by path and by parent."""

from collections import defaultdict
from collections.abc import Mapping

from ares.model.profile import Share

# The parent of all tenants.
ROOT = ""
UNDECLARED = Share()


def levels(account: str) -> tuple[str, str, str]:
    """The paths of an account's tenant, team and user: "a/b/c" gives "a", "a/b" and "a/b/c"."""
    tenant, team, _ = account.split("/", 2)
    return tenant, f"{tenant}/{team}", account


def parent_of(path: str) -> str:
    # A user's name may itself hold slashes: only the first two divide.
    return "/".join(path.split("/", 2)[:-1])


class ShareTree:
    """The declared shares, indexed once per profile."""

    __slots__ = ("_lightest", "_weights", "declared")

    def __init__(self, declared: Mapping[str, Share]) -> None:
        self.declared = declared
        weights: defaultdict[str, list[float]] = defaultdict(list)
        for path in declared:
            weights[parent_of(path)].append(declared[path].weight)
        self._weights = {parent: sum(found) for parent, found in weights.items()}
        self._lightest = {parent: min(1.0, *found) for parent, found in weights.items()}

    def share(self, path: str) -> Share:
        return self.declared.get(path, UNDECLARED)

    def weights(self, parent: str) -> float:
        """Of the declared children, in sum."""
        return self._weights.get(parent, 0.0)

    def lightest(self, parent: str) -> float:
        """The smallest weight among the children; the undeclared ones weigh 1."""
        return self._lightest.get(parent, 1.0)
