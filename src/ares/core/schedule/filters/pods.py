"""Nodes of Kubernetes run pods: only for jobs that a pod can be. In force whenever there are such nodes."""

from ares.api.reasons import Reason
from ares.core.ask import Ask
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import A_POD, NO_FILES, NO_IMAGE, Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes


def _against(ask: Ask) -> int:
    """What a node must not be, or lack."""
    return (A_POD if ask.staged else 0) | (0 if ask.image else NO_IMAGE) | (NO_FILES if ask.project else 0)


def passes(rows: NodeSlice) -> Bools | None:
    table, against = rows.table, _against(rows.ask)
    return table.pods[rows.at] & against == 0 if table.podded and against else None


def explain(miss: Miss) -> Reason:
    count, ask = len(miss.reached), miss.seen.ask
    which = "the one node is" if count == 1 else f"all {count:,} nodes are"
    if ask.staged:
        why = "the job asks for what only an agent on its own machine gives: see docs/guides/kubernetes.md"
    elif ask.project and bool((miss.seen.table.pods[miss.reached] & NO_FILES).any()):
        why = "the job has files of a project, which need pods with a helper: start the agent with --helper and --door"
    else:
        why = "the job names no image, and the cluster has none for such jobs: name one with --image docker://..."
    return Reason(code="ISOLATION_UNMET", message=f"{which} of Kubernetes, and {why}", numbers={"nodes": count})


FILTER = Filter(passes, of_nodes(explain), ("node joins", "node changes"), lasting=True)
