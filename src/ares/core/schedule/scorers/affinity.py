"""Preference: nodes with the labels and the neighbours a job would like, and without taints that discourage it."""

import numpy as np

from ares.core.capacity.affinity import among, keeps, meets
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import NODE_LABEL, Bools, Floats

_AVOIDED = 100.0


def score(rows: NodeSlice) -> Floats | None:
    """The share of preferred terms that are met, by weight; a taint that discourages takes off as much as all of them.

    An array of nothing but zeros and None are the same in a sum, so None may depend on the rows here.
    """
    met = _preferred(rows)
    avoided = _avoided(rows)
    if not met and avoided is None and not rows.reluctant.any():
        return None
    total = sum(weight for weight, _ in met)
    liked = np.zeros(len(rows), np.int64)
    for weight, rows_met in met:
        liked += weight * rows_met
    scores = liked / max(1, total) - rows.reluctant
    return scores if avoided is None else scores - _AVOIDED * avoided


def _avoided(rows: NodeSlice) -> Bools | None:
    """Nodes that failed the job before: worse than any other that can take it."""
    if not rows.ask.avoid:
        return None
    known = rows.table.values.known
    return among(rows.table.labels.of(NODE_LABEL)[rows.at], [known(name) for name in rows.ask.avoid])


def _preferred(rows: NodeSlice) -> list[tuple[int, Bools]]:
    terms = [(term.weight, meets(rows, term)) for term in rows.ask.terms if not term.required]
    return terms + [(near.weight, keeps(rows, near)) for near in rows.ask.near if not near.required]
