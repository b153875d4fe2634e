"""What jobs must be away from, the other way round: it keeps off the jobs that are meant, however late they come."""

from collections import Counter
from collections.abc import Iterable, Mapping

from ares.core.ask import Near


class Repulsions:
    """By tenant: terms of jobs that run or wait, with how many jobs have each."""

    def __init__(self) -> None:
        # By tenant and the first label of the term: a job is compared with terms that share a label with it.
        self._terms: dict[str, dict[tuple[str, str], Counter[Near]]] = {}
        # Tenants whose terms changed since the queue looked.
        self.stale: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._terms)

    def declare(self, tenant: str, terms: Iterable[Near], jobs: int) -> None:
        """So many jobs more have these terms, or fewer."""
        for term in terms:
            theirs = term._replace(weight=1, own=False, theirs=True)
            counts = self._terms.setdefault(tenant, {}).setdefault(term.labels[0], Counter())
            counts[theirs] += jobs
            if counts[theirs] == max(jobs, 0):
                self.stale.add(tenant)
            if not counts[theirs]:
                del counts[theirs]
                self._forget(tenant, term.labels[0])

    def _forget(self, tenant: str, label: tuple[str, str]) -> None:
        if not self._terms[tenant][label]:
            del self._terms[tenant][label]
        if not self._terms[tenant]:
            del self._terms[tenant]

    def against(self, tenant: str, labels: Mapping[str, str]) -> tuple[Near, ...]:
        """Terms of other jobs that mean a job with these labels."""
        by_label = self._terms.get(tenant)
        if not by_label:
            return ()
        found = [
            term
            for label in labels.items()
            for term in by_label.get(label, ())
            if all(labels.get(key) == value for key, value in term.labels)
        ]
        return tuple(sorted(found))
