"""Every exception that can reach the edge, as a problem. An unexpected one is logged, and its text is hidden."""

import traceback
from typing import Any

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException

from ares.edge.rest.http.problems import MEDIA_TYPE, Problem, retry_after
from ares.edge.rest.http.request_context import noted
from ares.edge.rest.http.wire import ClientGone
from ares.ports.clock import Rng
from ares.ports.store import StoreError, StoreFull

log = structlog.get_logger()

_BY_STATUS = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "unsupported-media-type"}


class Failures:
    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    def problem_of(self, error: Exception) -> Problem:
        match error:
            case Problem():
                return error
            case StoreFull():
                return Problem("store-full", headers=retry_after(5.0))
            case StoreError():
                return Problem("store-unavailable", headers=retry_after(1.0))
            case HTTPException(status_code=405):
                return Problem("method-not-allowed", headers={"allow": _methods(error)})
            case HTTPException(status_code=status) if status < 500:
                return Problem(_BY_STATUS.get(status, "bad-request"))
            case ClientGone():
                return Problem("bad-request")
            case _:
                return self._incident(error)

    def answer(self, request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        problem = noted(request.scope).problem = self.problem_of(error)
        return Response(
            problem.body(request.scope["path"]),
            status_code=problem.kind.status,
            media_type=MEDIA_TYPE,
            headers=problem.headers,
        )

    def _incident(self, error: Exception) -> Problem:
        number = self._rng.token(8).hex()
        # As text: a renderer that shows local variables would show secrets.
        log.error("http.internal", incident=number, traceback="".join(traceback.format_exception(error)))
        return Problem("internal", detail=f"error id {number}", instance=f"urn:ares:incident:{number}")


def _methods(error: HTTPException) -> str:
    """The router also lists what is not a method to others."""
    listed = {name.strip() for name in (error.headers or {}).get("allow", "").split(",")}
    return ", ".join(sorted(listed & {"GET", "POST", "PUT", "PATCH", "DELETE"}))
