"""Nodes told on the command line: "8x96x8xV100,2x64", or a file with a list of them."""

import re
from pathlib import Path

from ares.check.replay.trace import BadTrace, node
from ares.model.node import NodeInfo
from ares.sim.traces.formats import alibaba, history

# How many, CPUs of each, GPUs of each, their model.
_KIND = re.compile(r"^(?P<count>\d+)x(?P<cpus>\d+)(?:x(?P<gpus>\d+)(?:[x:](?P<model>[A-Za-z0-9 ._-]+))?)?$")


def nodes_of(text: str) -> tuple[NodeInfo, ...]:
    """Raises BadTrace with what would be understood."""
    path = Path(text)
    if path.is_file():
        lines = any(suffix.startswith(".json") for suffix in path.suffixes)
        return history.load_nodes(path) if lines else alibaba.load_nodes(path)
    found: list[NodeInfo] = []
    for number, part in enumerate(text.split(",")):
        match = _KIND.match(part.strip())
        if match is None or not int(match["count"]) or not int(match["cpus"]):
            do = "write COUNTxCPUS or COUNTxCPUSxGPUSxMODEL, such as 8x96x8xV100, or name a file"
            raise BadTrace("--nodes", 0, f"{part!r} is no file and no kind of node", do)
        count = int(match["count"])
        wide, prefix = len(str(count - 1)), f"{chr(ord('a') + number % 26)}"
        found += [
            node(f"{prefix}{at:0{wide}d}", int(match["cpus"]), int(match["gpus"] or 0), match["model"] or "")
            for at in range(count)
        ]
    return tuple(found)
