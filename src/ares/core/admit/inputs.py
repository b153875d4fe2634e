"""What a job says it reads: whether it can be staged, before any dataset is looked up."""

import re
from typing import Final

from ares.core.dataset import FORM, DatasetFlaw, parse_ref, variable
from ares.core.refusal import Refusal
from ares.model.job import DataInput, JobSpec

# It names a directory of the attempt.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


def inputs(spec: JobSpec) -> Refusal | None:
    seen: dict[str, str] = {}
    for place, given in enumerate(spec.inputs):
        if given.from_ is None:
            if given.mode != "cache":
                return _refused(place, "it has a mode and nothing that is staged", f"say from: {FORM}")
            continue
        wrong = _wrong(given)
        if wrong is not None:
            return _refused(place, *wrong)
        named = variable(given.name)
        if named in seen:
            message = f"{given.name!r} and {seen[named]!r} would both be in ${named}"
            return _refused(place, message, "give one of them another name")
        seen[named] = given.name
    return None


def _wrong(given: DataInput) -> tuple[str, str] | None:
    """What is wrong with it, and what to do."""
    if not _NAME.fullmatch(given.name):
        return f"{given.name!r} cannot name a directory", "use letters, digits and . _ - in its name"
    if given.mode == "stream":
        return (
            "files of a dataset are not read over the network while the job runs",
            "use mode: cache, which fetches each file once for all jobs of the node, or copy",
        )
    assert given.from_ is not None, "only what is staged is looked at"
    try:
        parse_ref(given.from_)
    except DatasetFlaw as flaw:
        return str(flaw), f"write {FORM}; `ares data put DIR NAME` publishes files"
    return None


def _refused(place: int, message: str, fix: str) -> Refusal:
    return Refusal(code="input-invalid", message=f"inputs[{place}]: {message}", fix=fix, path=f"$.spec.inputs[{place}]")
