"""Changes the real code for a while: what is replaced is put back, whatever happens in between."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from inspect import Parameter, isfunction, signature
from typing import Any

Patch = Callable[[], AbstractContextManager[None]]


def replace(owner: Any, name: str, new: Any) -> Patch:
    """`owner` is a class or a module; `name` must be its own, not inherited."""

    @contextmanager
    def patched() -> Generator[None, None, None]:
        old: Any = owner.__dict__[name]
        _must_fit(f"{owner.__name__}.{name}", old, new)
        setattr(owner, name, new)
        try:
            yield
        finally:
            setattr(owner, name, old)

    return patched


def _must_fit(name: str, old: Any, new: Any) -> None:
    """What a mutant replaces may have changed since: then its failure would be that of a wrong call."""
    if not (isfunction(old) and isfunction(new)):
        return
    parameters = signature(new).parameters
    if any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in parameters.values()):
        return
    wanted = list(signature(old).parameters)
    if len(parameters) != len(wanted):
        raise TypeError(f"{name} takes {', '.join(wanted)} now; the mutant takes {', '.join(parameters)}: mend it")


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
