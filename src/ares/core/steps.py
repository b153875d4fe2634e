"""Long computations in steps: between two steps the caller may do something else.

A step ends where everything that other code looks at is as it was; what changed meanwhile, the next step sees.
"""

from collections.abc import Callable, Generator
from typing import Generic, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

Steps = Generator[None, None, T]


def at_once(steps: Steps[T]) -> T:
    """Runs all steps, one after the other."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


class in_steps(Generic[P, T]):  # noqa: N801 - a decorator
    """A function that can be called at once, or taken step by step."""

    def __init__(self, steps: Callable[P, Steps[T]]) -> None:
        self.steps = steps
        self.__doc__ = steps.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return at_once(self.steps(*args, **kwargs))
