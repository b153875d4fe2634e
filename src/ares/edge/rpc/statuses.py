"""What status a refusal of the API has in gRPC, and what goes with it."""

from typing import Any, Final

import grpc

from ares.edge.rest.direct import DirectRefusal
from ares.edge.rpc.messages import message_class

Code = grpc.StatusCode
# By the status that it has in HTTP. Only what is unavailable is worth repeating as it is.
STATUSES: Final[dict[int, grpc.StatusCode]] = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    405: Code.UNIMPLEMENTED,
    408: Code.DEADLINE_EXCEEDED,
    409: Code.FAILED_PRECONDITION,
    413: Code.RESOURCE_EXHAUSTED,
    415: Code.INVALID_ARGUMENT,
    416: Code.OUT_OF_RANGE,
    421: Code.FAILED_PRECONDITION,
    422: Code.INVALID_ARGUMENT,
    429: Code.RESOURCE_EXHAUSTED,
    431: Code.RESOURCE_EXHAUSTED,
    500: Code.INTERNAL,
    503: Code.UNAVAILABLE,
    504: Code.UNAVAILABLE,
    507: Code.RESOURCE_EXHAUSTED,
}
# Where the code of the problem says more than that.
EXCEPTIONS: Final[dict[str, grpc.StatusCode]] = {
    "request-conflict": Code.ALREADY_EXISTS,
    "tenant-exists": Code.ALREADY_EXISTS,
    "user-exists": Code.ALREADY_EXISTS,
    "identity-taken": Code.ALREADY_EXISTS,
    # The stream is worth opening again, from the last cursor.
    "lagged": Code.ABORTED,
}
DOMAIN: Final = "ares"
_DETAILS: Final = "grpc-status-details-bin"
# Of texts in trailers, which are headers.
_TEXT_MAX: Final = 1000


def status_of(refusal: DirectRefusal) -> grpc.StatusCode:
    return EXCEPTIONS.get(refusal.code) or STATUSES[refusal.status]


def message_of(refusal: DirectRefusal) -> str:
    """What happened, and what to do next."""
    said = (refusal.detail or refusal.title)[:_TEXT_MAX].rstrip(".")
    where = f" (at {refusal.path})" if refusal.path else ""
    return f"{said[:1].upper()}{said[1:]}{where}. {refusal.fix[:1].upper()}{refusal.fix[1:_TEXT_MAX]}"


def details_of(refusal: DirectRefusal) -> tuple[str, bytes]:
    """The trailer with a google.rpc.Status: ErrorInfo has the code of the problem, RetryInfo when to come back."""
    status: Any = message_class("google.rpc.Status")(code=status_of(refusal).value[0], message=message_of(refusal))
    about = {"title": refusal.title, "detail": refusal.detail, "fix": refusal.fix, "path": refusal.path}
    metadata = {name: text[:_TEXT_MAX] for name, text in about.items() if text}
    info = message_class("google.rpc.ErrorInfo")(reason=refusal.code, domain=DOMAIN, metadata=metadata)
    status.details.add().Pack(info)
    if refusal.retry_after_s is not None:
        retry: Any = message_class("google.rpc.RetryInfo")()
        retry.retry_delay.FromMilliseconds(round(refusal.retry_after_s * 1000))
        status.details.add().Pack(retry)
    return _DETAILS, status.SerializeToString()
