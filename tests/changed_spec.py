"""What a client makes of the smallest change that an explanation names: the job with it."""

from typing import Any, cast

import msgspec

from ares.api.decisions import Change
from ares.model.job import JobSpec

# Fields whose entries are named by people.
_BY_NAME = frozenset({"selector", "licences", "devices", "expectedRuntimesS"})


def changed_spec(spec: JobSpec, change: Change) -> JobSpec:
    """The job with the change made: fields are dotted names as in JSON; None takes an entry away."""
    tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spec))
    for dotted, value in change.fields.items():
        _put(tree, dotted, value)
    return msgspec.convert(tree, JobSpec)


def _put(branch: Any, dotted: str, value: Any) -> None:
    name, _, rest = dotted.partition(".")
    if isinstance(branch, list):
        _put(cast("list[Any]", branch)[int(name)], rest, value)
    elif not rest:
        _set(branch, name, value)
    elif name in _BY_NAME:
        # What follows is one name, which may have dots in it.
        _set(branch.setdefault(name, {}), rest, value)
    else:
        _put(branch.setdefault(name, {}), rest, value)


def _set(branch: Any, name: str, value: Any) -> None:
    if value is None:
        branch.pop(name, None)
    else:
        branch[name] = value
