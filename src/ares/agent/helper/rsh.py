"""In the place of ssh for a launcher: runs a command on another rank, in that rank's slot, through the hub."""

import asyncio
import os
import sys

from ares.agent.helper.hub import call_hub
from ares.agent.helper.orders import HelperOrders

_CALL_S = 30.0


def main() -> None:
    host, words = sys.argv[1], sys.argv[2:]
    place = host.rpartition("-")[2]
    if not place.isdigit():
        sys.exit(f"ares-rsh: {host} is no rank of this job")
    sys.exit(asyncio.run(_called(int(place), " ".join(words))))


async def _called(place: int, command: str) -> int:
    """The exit code of the command; 255, as ssh has it, where it could not be run."""
    _, address, port = os.environ["ARES_HUB"].split(" ")
    key = HelperOrders(os.environ["ARES_HELPER_ORDERS"]).key
    wire = await call_hub(address, int(port), key, _CALL_S, call=place, command=command)
    if isinstance(wire, str):
        return 255
    try:
        return int((await wire.read(None))["code"])
    except EOFError:
        return 255
