"""E1: one job for one request."""

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.history import Answered, Asked, Event
from ares.check.invariants.records import Request
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene

_CONFLICT = "request-conflict"


class Dedup(Rule):
    """Every request makes one job, in the commit that notes the request, and stays noted as long as the job is kept.

    An accepted submission names a job that was committed before the answer. Repeats with the same payload give the same
    job; with another payload they are refused as a conflict, and only they are. A retry by hand that has a request id
    is one retry, too.
    """

    id = "E1"
    title = "one job per tenant and request"
    hears = (Asked, Answered)
    notes = ("/requests/",)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._asked: dict[int, Asked] = {}
        # What each request was accepted with, and every payload it was ever sent with.
        self._accepted: dict[tuple[str, str], tuple[str, str]] = {}
        self._sent: dict[tuple[str, str], set[str]] = {}
        self._request_of: dict[str, tuple[str, str]] = {}
        # Which job came of a retry's request, and all requests by which a job was retried.
        self._retries: dict[tuple[str, str], str] = {}
        self._retry_asks: dict[str, set[str]] = {}

    def step(self, step: CommittedStep) -> None:
        state = step.after
        if step.before is None and state is not None and state.request_id is not None:
            self.tested += 1
            found = self.books.requests.get((state.tenant, state.request_id))
            if found is None or found.job != step.job:
                noted = "nothing" if found is None else f"job {found.job}"
                self.blame(step.job, f"made by request {state.request_id!r}, under which {noted} is noted")

    def note(self, name: tuple[str, str], before: Request | None, after: Request | None) -> None:
        self.tested += 1
        if before is not None and after is not None:
            self.blame(after.job, f"request {name[1]!r} of {name[0]} made {before.job}, and now {after.job}")
        elif after is not None:
            other = self._request_of.setdefault(after.job, name)
            if other != name:
                self.blame(after.job, f"stands for two requests: {other[1]!r} and {name[1]!r}")
            if not self._kept(after.job):
                self.blame(after.job, f"request {name[1]!r} is noted for it, and it was not created with that")
        elif before is not None and self._kept(before.job):
            self.blame(before.job, f"request {name[1]!r} was forgotten while its job is kept: a repeat makes another")

    def _kept(self, name: str) -> bool:
        """Whether there is a job, an array or a workflow of this id."""
        return name in self.books.states or name in self.books.arrays or name in self.books.flows

    def hear(self, event: Event) -> None:
        if isinstance(event, Asked):
            if event.verb == "retry" and event.request:
                self._asked[event.op] = event
            elif event.verb == "submit":
                self._asked[event.op] = event
                self._sent.setdefault((event.tenant, event.request), set()).add(event.payload)
        elif isinstance(event, Answered):
            asked = self._asked.pop(event.op, None)
            if asked is not None and asked.verb == "retry":
                self._retried(asked, event)
            elif asked is not None and asked.request:
                self._answered(asked, event)
            elif asked is not None and event.outcome == "ok":
                self._must_exist(event.job)

    def _answered(self, asked: Asked, answer: Answered) -> None:
        name = (asked.tenant, asked.request)
        earlier = self._accepted.get(name)
        if answer.outcome == "refused" and answer.code == _CONFLICT:
            self.tested += 1
            if self._sent[name] <= {asked.payload} or (earlier is not None and earlier[1] == asked.payload):
                self.blame(answer.job, f"request {asked.request!r} was refused as a conflict with its own payload")
        if answer.outcome != "ok":
            return
        self.tested += 1
        self._must_exist(answer.job)
        noted = self.books.requests.get(name)
        if noted is not None and noted.job != answer.job:
            self.blame(answer.job, f"given as the job of request {asked.request!r}, under which {noted.job} is noted")
        job, payload = self._accepted.setdefault(name, (answer.job, asked.payload))
        if job != answer.job:
            self.blame(
                answer.job, f"request {asked.request!r} was answered with {job} before, and now with another job"
            )
        if payload != asked.payload:
            self.blame(answer.job, f"request {asked.request!r} was accepted with two payloads: it is a conflict")

    def _retried(self, asked: Asked, answer: Answered) -> None:
        """One retry for one request, whatever became of its first answers."""
        self.tested += 1
        name = (asked.tenant, asked.request)
        if answer.outcome == "ok":
            job = self._retries.setdefault(name, answer.job)
            if job != answer.job:
                self.blame(answer.job, f"retry {asked.request!r} was answered with {job} before, now with another job")
        counted = self.books.retries.get(asked.job)
        asks = self._retry_asks.setdefault(asked.job, set())
        asks.add(asked.request)
        if counted is not None and len(counted.jobs) > len(asks):
            self.blame(asked.job, f"was retried {len(counted.jobs)} times by hand, for {len(asks)} requests")

    def _must_exist(self, job: str) -> None:
        """Also one that was forgotten since: its request is forgotten with it."""
        if job not in self.books.created:
            self.blame(job, "was acknowledged, and is not in the store")

    def restored(self) -> None:
        kept = self.books.requests
        self._accepted = {name: told for name, told in self._accepted.items() if name in kept}
        self._request_of = {noted.job: name for name, noted in kept.items()}
        self._retries = {name: job for name, job in self._retries.items() if job in self.books.states}
