"""Whether the places an attempt was given are what the job asked for."""

from collections import Counter
from collections.abc import Iterator, Mapping

from ares.check.replay.node import AskedRoom, answers, domain, open_to
from ares.model.node import NodeInfo
from ares.model.state import Placement


def wrong_places(
    infos: Mapping[str, NodeInfo], down: set[str], wished: tuple[AskedRoom, ...], places: tuple[Placement, ...]
) -> Iterator[str]:
    """All ranks at once, each with all that it asked for, on nodes that are there."""
    missing = sorted({place.node for place in places if place.node not in infos})
    if missing:
        yield f"was started on {missing[0]}, which does not exist"
        return
    gone = sorted({place.node for place in places}.intersection(down))
    if gone:
        yield f"was started on {gone[0]}, which is down"
    said = [list(_against(infos, wish, places)) for wish in wished]
    if all(said):
        yield min(said, key=len)[0]


def _against(infos: Mapping[str, NodeInfo], wish: AskedRoom, places: tuple[Placement, ...]) -> Iterator[str]:
    if not wish.ranks_min <= len(places) <= wish.ranks or {one.rank for one in places} != set(range(len(places))):
        yield f"started with {len(places)} ranks; it asked for {wish.ranks}, and at least {wish.ranks_min}"
    each = Counter(place.node for place in places)
    if each and max(each.values()) > wish.per_node:
        yield f"has {max(each.values())} ranks on one node; it allows {wish.per_node}"
    if wish.ranks > 1 and wish.level != "nvlink" and len({domain(infos[name], wish.level) for name in each}) > 1:
        yield f"is spread over more than one {wish.level}; it must be in one"
    for place in places:
        yield from _rank(infos[place.node], wish, place)


def _rank(info: NodeInfo, wish: AskedRoom, place: Placement) -> Iterator[str]:
    wants = wish.wants
    if not open_to(info, wish.spec):
        yield f"was started on {info.name}, whose labels or taints rule it out"
    if (place.cpu_milli, place.memory_mib) != (wants.cpu_milli, wants.memory_mib):
        yield f"has {place.cpu_milli} CPU thousandths and {place.memory_mib} MiB on {info.name}, and asked for others"
    if len(set(place.gpus)) != wants.gpus or (wants.gpus and place.gpu_milli != wants.gpu_milli):
        yield f"has GPUs {place.gpus} of {info.name}; it asked for {wants.gpus} of {wants.gpu_milli} thousandths"
    right = {gpu.index for gpu in info.gpus if answers(gpu, wants)}
    if not right.issuperset(place.gpus):
        yield f"has GPUs {place.gpus} of {info.name}, of which some are not what it asked for"
    if {kind: len(set(names)) for kind, names in place.devices.items() if names} != wants.devices:
        yield f"has devices {place.devices} of {info.name}; it asked for {wants.devices}"
