"""The supervisor keeps trying, whatever the machine is short of."""

import asyncio
import subprocess
import sys

from ares.app import up


async def test_a_process_that_cannot_be_made_is_tried_again() -> None:
    stop, made = asyncio.Event(), asyncio.Event()
    trouble = [OSError(11, "Resource temporarily unavailable")]

    def start() -> subprocess.Popen[bytes]:
        if trouble:
            raise trouble.pop()
        process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        made.set()
        return process

    keeping = asyncio.create_task(up._keep("agent", start, stop))
    await asyncio.wait_for(made.wait(), 20)
    stop.set()
    assert await asyncio.wait_for(keeping, 20) == 0
