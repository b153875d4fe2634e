"""Changes the real code for a while: what is replaced is put back, whatever happens in between."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

Patch = Callable[[], AbstractContextManager[None]]


def replace(owner: Any, name: str, new: Any) -> Patch:
    """`owner` is a class or a module; `name` must be its own, not inherited."""

    @contextmanager
    def patched() -> Generator[None, None, None]:
        old: Any = owner.__dict__[name]
        setattr(owner, name, new)
        try:
            yield
        finally:
            setattr(owner, name, old)

    return patched


def entry(table: dict[Any, Any], key: Any, new: Any) -> Patch:
    """One entry of a table, added or changed."""

    @contextmanager
    def patched() -> Generator[None, None, None]:
        missing = object()
        old = table.get(key, missing)
        table[key] = new
        try:
            yield
        finally:
            if old is missing:
                del table[key]
            else:
                table[key] = old

    return patched


def together(*patches: Patch) -> Patch:
    @contextmanager
    def patched() -> Generator[None, None, None]:
        with ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch())
            yield

    return patched
