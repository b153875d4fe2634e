"""Runs a rank to its end, and ends the process likewise."""

import asyncio
import contextlib
import json
import logging
import os
import signal
from typing import NoReturn

from ares.agent.helper.elastic import ElasticRank
from ares.agent.helper.orders import HelperOrders, HelperScene
from ares.agent.helper.rank import HelperRank
from ares.agent.helper.slot import HelperEnd


def run_rank(scene: HelperScene, ends: int, begun: int | None) -> NoReturn:
    """`ends`: the open pipe of started processes. `begun`: the launcher, if it runs already."""
    # What it has to say goes to the agent: its output is the job's.
    logging.disable()
    _leave(scene.orders, asyncio.run(_run(scene, ends, begun)))


async def _run(scene: HelperScene, ends: int, begun: int | None) -> HelperEnd:
    return await (ElasticRank if scene.orders.plan["everywhere"] else HelperRank)(scene, ends, begun).run()


def _leave(orders: HelperOrders, end: HelperEnd) -> NoReturn:
    said = {"message": end.message, "failure": end.failure, "blames": end.blames}
    if any(value not in ("", None) for value in said.values()):
        with contextlib.suppress(OSError), open(orders.note, "w", encoding="utf-8") as file:
            json.dump(said, file)
    if end.signum == signal.SIGSTOP:
        os.kill(os.getpid(), signal.SIGKILL)
    if end.signum:
        with contextlib.suppress(OSError):
            signal.signal(end.signum, signal.SIG_DFL)
        os.kill(os.getpid(), end.signum)
    os._exit(end.code or (1 if end.signum else 0))
