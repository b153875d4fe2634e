from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.platform import asking_first
from tests.unit.edge.client.both import drain_async, drain_sync
from tests.unit.edge.client.stub import Stub


@pytest.fixture(autouse=True)
def first_is_first() -> Iterator[None]:
    """Tests of failover say which address is asked first; elsewhere chance does."""
    with asking_first():
        yield


@pytest.fixture
def stub() -> Iterator[Stub]:
    server = Stub()
    yield server
    server.close()


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest, stub: Stub) -> Callable[[Callable[[Any], Any]], Any]:
    """Asks the stub by either client: both must behave the same."""
    drain: Any = drain_sync if request.param == "sync" else drain_async
    return lambda make: drain(make, stub.url)
