"""What every test shares: how Hypothesis searches."""

import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

# Tests start processes while gRPC channels are open; its fork handlers would crash them.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# Two cores run servers and three workers at once: a slow example says nothing.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples in every run of the check; a person's own runs keep searching.
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """What a test makes of logging ends with it: its standard error is closed then."""
    yield
    structlog.reset_defaults()
