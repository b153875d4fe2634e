"""What can go wrong between a program and Ares.

AresError
├── NotConfigured       no URL or token to use
├── LoginFailed         the login at an identity provider failed
├── Unreachable         no answer from the server
├── BadAnswer           an answer that is not Ares'
├── WaitTimeout         the job did not end in the time given (also a TimeoutError)
├── InvalidSpec         the job asked for is not a valid one (also a ValueError)
│   ├── InvalidBooking  the reservation asked for is not
│   └── InvalidQuota    the limit asked for is not
├── AmbiguousJob        a job's id or name fits several jobs
├── SessionLost         a session in a running job is over without an end of its own
├── DamagedOutput       a file's bytes are not those that were committed
├── UnsafePath          a file would be saved outside the directory given
└── ApiError            the server said no: `status`, `code`, `fix`
    ├── InvalidRequest  400, 413, 415, 422
    ├── Unauthorized    401
    ├── Forbidden       403
    ├── NotFound        404
    ├── Conflict        409
    ├── TooManyRequests 429
    └── ServerError     5xx
        └── Unavailable 503
"""

from typing import ClassVar


class AresError(Exception):
    """Something went wrong between this program and Ares"""

    code: str = "error"
    fix: str = ""

    def __init__(self, detail: str = "", *, code: str = "", fix: str = "") -> None:
        title = (type(self).__doc__ or "").partition("\n")[0]
        super().__init__(f"{title}: {detail}" if detail else title)
        self.detail = detail
        self.code = code or self.code
        self.fix = fix or self.fix


class NotConfigured(AresError):
    """Ares does not know which server to talk to, or as whom"""

    code = "not-configured"
    fix = "start one here with `ares up`, or set ARES_URL and ARES_TOKEN"


class LoginFailed(AresError):
    """The login did not come about"""

    code = "login-failed"
    fix = "try again: `ares login`"


class Unreachable(AresError):
    """The Ares server does not answer"""

    code = "unreachable"
    fix = "start it with `ares up`, or set ARES_URL to a server that runs"


class BadAnswer(AresError):
    """The server's answer is not one Ares gives"""

    code = "bad-answer"
    fix = "check that the URL is an Ares server of this version"


class WaitTimeout(AresError, TimeoutError):
    """The job did not end in the time given"""

    code = "wait-timeout"
    fix = "wait longer, or look at it with `ares show`; the job goes on"


class SessionLost(AresError):
    """The session in the job is over"""

    code = "session-lost"
    fix = "look at the job with `ares show`, and open another session if it runs"


class InvalidSpec(AresError, ValueError):
    """This is not a valid job"""

    code = "invalid"


class InvalidBooking(InvalidSpec):
    """This cannot be booked"""


class InvalidQuota(InvalidSpec):
    """This is not a limit"""


class AmbiguousJob(AresError):
    """The id or name fits several jobs"""

    code = "ambiguous-job"
    fix = "give the id, or more of its characters"


class DamagedOutput(AresError):
    """The bytes of an output are not those that were committed"""

    code = "damaged-output"
    fix = "try again; if it stays, the outputs directory of the server is damaged"


class UnsafePath(AresError):
    """An output cannot be saved there without leaving the directory"""

    code = "unsafe-path"
    fix = "save it to an empty directory"


class ApiError(AresError):
    """The server refused the request"""

    status: int = 0
    retry_after_s: float | None = None
    by_status: ClassVar[dict[int, type["ApiError"]]] = {}

    def __init_subclass__(cls, *, statuses: tuple[int, ...] = ()) -> None:
        super().__init_subclass__()
        ApiError.by_status |= dict.fromkeys(statuses, cls)


class InvalidRequest(ApiError, statuses=(400, 413, 415, 422)):
    """The server found the request invalid"""


class Unauthorized(ApiError, statuses=(401,)):
    """The server does not accept this token"""

    fix = "check ARES_TOKEN, or log in again: `ares login`"


class Forbidden(ApiError, statuses=(403,)):
    """This token may not do that"""

    fix = "use a token with a role that allows it"


class NotFound(ApiError, statuses=(404,)):
    """There is no such thing"""

    fix = "check the id, and that the token is of the right tenant"


class Conflict(ApiError, statuses=(409,)):
    """The request does not fit the present state"""


class TooManyRequests(ApiError, statuses=(429,)):
    """The server takes no more at the moment"""

    fix = "try again later"


class ServerError(ApiError, statuses=(500, 501, 502, 504)):
    """The server failed"""

    fix = "look at the server's log"


class Unavailable(ServerError, statuses=(503,)):
    """The server is not ready to answer"""

    fix = "try again shortly"


def api_error(status: int, detail: str, *, code: str, fix: str, retry_after_s: float | None) -> ApiError:
    """The exception that stands for an HTTP error status."""
    fallback = ServerError if status >= 500 else ApiError
    kind = ApiError.by_status.get(status, fallback)
    # The server speaks of headers and paths there. A user of the client has set neither.
    error = kind(detail, code=code or f"http-{status}", fix="" if status in {401, 404} else fix)
    error.status = status
    error.retry_after_s = retry_after_s
    return error
