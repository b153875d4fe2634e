"""`ares` without an audit chain: what the benchmark of tenants measures against. No configuration can ask for this."""

import sys
from typing import Any

from ares.app import audit
from ares.edge.cli.main import main
from ares.edge.rest import app


def _no_chain(config: Any, rng: Any) -> None:
    return None


def _unwatched(inner: Any, services: Any) -> Any:
    return inner


if __name__ == "__main__":
    audit.ports_of = _no_chain  # type: ignore[assignment]
    app.Auditor = _unwatched  # type: ignore[assignment, misc]
    sys.exit(main())
