"""What a job says it waits for: whether that can be meant, before any of those jobs is looked up."""

from ares.core.dataset import FORM, DatasetFlaw, parse_ref
from ares.core.refusal import Refusal
from ares.model.job import PARENTS_MAX, PARENTS_OUTSIDE_MAX, JobSpec, Need


def needs(spec: JobSpec) -> Refusal | None:
    """Rules for every job, in a workflow or not."""
    if not spec.needs:
        if spec.needs_timeout is not None and not spec.finally_:
            message = "the job has a needsTimeout and waits for no other job"
            return Refusal(code="need-invalid", message=message, fix="add needs, or leave needsTimeout out")
        return None
    count = sum(len(need.parents) for need in spec.needs)
    if count > PARENTS_MAX:
        message = f"the job waits for {count:,} jobs, at most {PARENTS_MAX:,} are allowed"
        return Refusal(code="needs-too-many", message=message, fix="wait for an array, or for jobs in between")
    for number, need in enumerate(spec.needs):
        wrong = _wrong(spec, need)
        if wrong is not None:
            message, fix = wrong
            return Refusal(code="need-invalid", message=f"needs[{number}]: {message}", fix=fix)
    return None


def outside(spec: JobSpec) -> Refusal | None:
    """Rules for a job that is submitted by itself."""
    if spec.finally_:
        message = "only a job of a workflow can run when the others have ended"
        return Refusal(code="need-invalid", message=message, fix="leave finally out, or submit a file with jobs")
    parents = {name for need in spec.needs for name in need.parents}
    if len(parents) > PARENTS_OUTSIDE_MAX:
        message = f"the job waits for {len(parents)} jobs that exist already, at most {PARENTS_OUTSIDE_MAX} are allowed"
        return Refusal(
            code="needs-too-many", message=message, fix="submit them together as one workflow, or as an array"
        )
    return None


def _wrong_data(need: Need, data: str) -> tuple[str, str] | None:
    if need != Need(data=data):
        return "it names data and something of jobs", "write {data: ares://datasets/NAME} by itself"
    try:
        parse_ref(data)
    except DatasetFlaw as flaw:
        return str(flaw), f"write {FORM}"
    return None


def inside(spec: JobSpec) -> Refusal | None:
    """Rules for a job of a workflow."""
    if spec.restore_from is not None:
        message = "restoreFrom is for a single job, not for a job of a workflow"
        return Refusal(code="checkpoint-invalid", message=message, fix="submit the job by itself")
    return None


def _wrong(spec: JobSpec, need: Need) -> tuple[str, str] | None:
    """What is wrong with it, and what to do."""
    if need.data is not None:
        return _wrong_data(need, need.data)
    if need.at_step is not None and need.on != "checkpoint":
        return "atStep is for checkpoints", "write on: checkpoint, or leave atStep out"
    if (need.job is None) == (not need.of):
        return "it names no job, or both job and of", "write job: ID, or of: [{job: ID}, ...]"
    if need.k is not None and (not need.of or need.k > len(need.of)):
        return f"it wants {need.k} of {len(need.of)} jobs", "choose a k up to the number of jobs in of"
    if len(set(need.parents)) < len(need.parents):
        return "it names a job twice", "name each job once"
    if need.each and spec.array is None:
        return "each is for arrays, and this job is none", "leave each out, or make the job an array"
    return None
