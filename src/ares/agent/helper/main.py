"""The main process of a rank with a runtime. A launcher that can begin at once does so before all else."""

import os
import sys

from ares.agent.helper.launch import begin_early, free_ports, prepare
from ares.agent.helper.orders import HelperOrders, HelperScene


def main() -> None:
    orders = HelperOrders(sys.argv[1])
    world = orders.world()
    prepare(orders, world.size)
    ports = free_ports(orders.plan["ports"])
    if not world.port:
        # No other rank has to know it.
        world = world._replace(port=free_ports(1)[0])
    # Kept open: what a process says before the rank listens is not lost.
    ends = os.open(orders.ends, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    scene = HelperScene(orders, world, ports, ports)
    begun = begin_early(scene)
    # What takes time to import comes after. Nothing here speaks TLS.
    sys.modules["ssl"] = None  # pyright: ignore[reportArgumentType]
    from ares.agent.helper.run import run_rank

    run_rank(scene, ends, begun)
