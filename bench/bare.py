"""`ares` without an audit chain: what the benchmark of tenants measures against. No configuration can ask for this."""

import sys
from typing import Any
from unittest.mock import patch

from ares.app import audit
from ares.app.main import main
from ares.edge.rest import app


def _no_chain(config: Any, rng: Any) -> None:
    return None


def _unwatched(inner: Any, services: Any) -> Any:
    return inner


if __name__ == "__main__":
    with patch.object(audit, "ports_of", _no_chain), patch.object(app, "Auditor", _unwatched):
        sys.exit(main())
