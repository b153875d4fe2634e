"""Nodes whose labels meet every term the job requires of them."""

import numpy as np

from ares.api.reasons import Reason
from ares.core.capacity.affinity import meets
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import none_of
from ares.model.job import NodeTerm, TermOp

_WORDS: dict[TermOp, str] = {
    "in": "in", "not-in": "not in", "exists": "is there", "absent": "is not there", "gt": "above", "lt": "below",
}  # fmt: skip


def passes(rows: NodeSlice) -> Bools | None:
    required = _required(rows)
    return np.logical_and.reduce([meets(rows, term) for term in required]) if required else None


def _required(rows: NodeSlice) -> list[NodeTerm]:
    return [term for term in rows.ask.terms if term.required]


def explain(miss: Miss) -> Reason:
    required = _required(miss.seen)
    here = miss.near
    met = [meets(here, term) for term in required]
    at = int(np.sum(met, axis=0).argmax())
    best = int(miss.reached[at])
    labels = miss.record(best).info.labels
    unmet = (
        f"{_text(term)} ({'it has ' + labels[term.key] if term.key in labels else 'it does not have it'})"
        for term, has in zip(required, met, strict=True)
        if not has[at]
    )
    message = f"{none_of(miss)} meets the required terms; the nearest, {miss.name(best)}, fails "
    return Reason(code="AFFINITY_UNMET", message=message + " and ".join(unmet), numbers={"nodes": len(miss.reached)})


def _text(term: NodeTerm) -> str:
    return " ".join(part for part in (term.key, _WORDS[term.op], ", ".join(term.values)) if part)


FILTER = Filter(passes, of_nodes(explain), ("node joins", "node changes"), lasting=True)
