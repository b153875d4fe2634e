"""What every test shares: the product's event loop, and how Hypothesis searches."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
import uvloop
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.running import pytest_collection_finish, pytest_terminal_summary
from tests.workers import pytest_addoption, pytest_runtestloop

__all__ = ["pytest_addoption", "pytest_collection_finish", "pytest_runtestloop", "pytest_terminal_summary"]

# Compiled modules are kept, whatever the caller's environment says: tests start hundreds of processes.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Tests submit from the checkout itself, thousands of files: those about projects ship directories of their own.
os.environ["ARES_SHIP"] = "never"

# Tests start processes while gRPC channels are open; its fork handlers would crash them.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# A run in the background of a script is started with SIGINT ignored, and everything that it starts would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Values are tried that stand in the source of what properties are about. In all other modules they are searched for in
# vain, by each worker: a tenth of what it takes to collect the tests.
_ABOUT = ("/src/ares/core/", "/src/ares/model/", "/tests/property/")
providers.is_local_module_file = lambda path: any(part in path for part in _ABOUT)

# Two cores run servers and several workers at once: a slow example says nothing.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples in every run of the check; a person's own runs keep searching.
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


# Tests with real processes, sockets and time. Those on a clock of their own look into the loop, which asyncio's own
# lets them alone.
_ON_THE_PRODUCTS_LOOP = ("unit/adapters/executors", "integration/agent", "security/test_sandbox.py")


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The agent's side runs on the loop that the product runs on: others call back where this one does not."""
    path = item.path.relative_to(Path(__file__).parent).as_posix()
    product = path.startswith(_ON_THE_PRODUCTS_LOOP)
    return {"loop": uvloop.new_event_loop if product else asyncio.new_event_loop}


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """What a test makes of logging ends with it: its standard error is closed then."""
    yield
    structlog.reset_defaults()
