"""An event loop on virtual time: when nothing can run, it jumps to the next timer.

Everything that runs belongs to a component, such as "agent n1" or "replica r2". A component can be frozen as by
SIGSTOP, its callbacks held until it wakes, and killed as by SIGKILL: nothing of it runs any more, not even a `finally`.
"""

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Never, TypeVar

_COMPONENT: ContextVar[str] = ContextVar("component", default="world")
# One turn of the loop runs at most this many callbacks without time passing: more means that something spins.
_SPIN_MAX = 200_000
_CLEAR_UPS = 20

T = TypeVar("T")


class Spinning(Exception):
    """A component runs for ever without waiting."""


class SimLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._number = 0
        self._turns: deque[tuple[str, asyncio.Handle]] = deque()
        self._timers: list[tuple[float, int, str, asyncio.Handle]] = []
        # Callbacks of frozen components; of dead ones None.
        self._halted: dict[str, list[asyncio.Handle] | None] = {}
        # Tasks of killed components are kept to the end: collecting them would run their `finally` blocks.
        self._tasks: list[asyncio.Task[Any]] = []
        self.failures: list[tuple[str, BaseException]] = []
        self.set_exception_handler(self._take_failure)

    # ---- components

    def spawn(self, component: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self.create_task(work, context=context_of(component))

    def freeze(self, component: str) -> None:
        self._halted.setdefault(component, [])

    def thaw(self, component: str) -> None:
        held = self._halted.get(component)
        if held is not None:
            del self._halted[component]
            self._turns.extend((component, handle) for handle in held)

    def kill(self, component: str) -> None:
        """Kills a component for ever. A process that is started again is a new component."""
        self._halted[component] = None

    def halted(self, component: str) -> bool:
        return component in self._halted

    def abandon(self) -> None:
        """The world is over: tasks that still wait are closed, without a warning about unfinished work."""
        for task in self._tasks:
            task._log_destroy_pending = False  # pyright: ignore[reportAttributeAccessIssue]
            work = task.get_coro()
            # A task may wait again while it clears up: it is closed again.
            for _ in range(_CLEAR_UPS):
                with contextlib.suppress(BaseException):
                    work.close()
                    break
        self._timers.clear()
        self._turns.clear()
        self.close()

    # ---- the interface that asyncio needs

    def time(self) -> float:
        return self._now

    def create_task(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        task = super().create_task(coro, name=name, context=context)
        self._tasks.append(task)
        return task

    def call_soon(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        context = copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        self._turns.append((context.get(_COMPONENT, "world"), handle))
        return handle

    def call_at(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, context.get(_COMPONENT, "world"), handle))
        return handle

    def run_in_executor(self, executor: object, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Runs the function at once: the order of a thread would not depend on the seed."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to do: a cancelled timer is skipped when its time comes."""

    def call_soon_threadsafe(self, callback: object, *args: object, context: object = None) -> Never:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("a simulated world has one thread")

    def _asyncgen_finalizer_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        """Does not close garbage generators: when garbage is collected depends on more than the seed."""

    def _run_once(self) -> None:
        if not self._turns:
            self._jump()
        ready, halted, ran = self._turns, self._halted, 0
        while ready:
            component, handle = ready.popleft()
            if halted and component in halted:
                held = halted[component]
                if held is not None:
                    held.append(handle)
                continue
            if not handle.cancelled():
                handle._run()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
                ran += 1
                if ran > _SPIN_MAX:
                    raise Spinning(f"{component} runs without waiting at {self._now:.3f} s")

    def _jump(self) -> None:
        """Jumps to the next timer. Timers of one moment run in the order they were set."""
        timers = self._timers
        while timers and timers[0][3].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise Spinning(f"nothing will ever happen again after {self._now:.3f} s")
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            _, _, component, handle = heapq.heappop(timers)
            self._turns.append((component, handle))

    def _take_failure(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # Without an exception it is only told that the dead left work undone.
        if (error := context.get("exception")) is not None:
            self.failures.append((_COMPONENT.get(), error))


def context_of(component: str) -> Context:
    context = copy_context()
    context.run(_COMPONENT.set, component)
    return context


def here() -> str:
    """The component that runs now."""
    return _COMPONENT.get()
