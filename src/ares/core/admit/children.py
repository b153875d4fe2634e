"""What a running job may submit: no more than it was given itself.

The program of a job is not all its submitter's own. What the submitter may do beyond what it gave this job - other
secrets, the network, a reservation, more priority - is not the job's to use.
"""

from msgspec.structs import replace

from ares.core.refusal import Refusal
from ares.model.isolation import stronger
from ares.model.job import PRIORITIES, JobSpec, projects_of

DEPTH_MAX = 8


def adopted(parent: JobSpec, child: JobSpec) -> JobSpec | Refusal:
    """The child as it is submitted: of what it leaves open it has no more than its parent."""
    no = _beyond(parent, child)
    if no is not None:
        return Refusal(code="escalation", message=f"a job may submit what it was given itself: {no[0]}", fix=no[1])
    project = child.project or (parent.project if child.workdir is None else None)
    return replace(
        child,
        team=parent.team,
        priority=PRIORITIES[max(PRIORITIES.index(parent.priority), PRIORITIES.index(child.priority))],
        isolation=stronger(parent.isolation, child.isolation),
        network="none" if parent.network == "none" else child.network,
        project=project,
        image=child.image or parent.image,
    )


def too_deep(depth: int) -> Refusal | None:
    if depth <= DEPTH_MAX:
        return None
    message = f"it would be a child of a child {depth} deep; at most {DEPTH_MAX} are allowed"
    return Refusal(code="not-allowed", message=message, fix="let a job nearer to the first one submit it")


def _beyond(parent: JobSpec, child: JobSpec) -> tuple[str, str] | None:
    """What the child asks for that is not its parent's to give, and what to do."""
    # An account at a registry is not shown to the parent, and so not its to give in another way.
    given = {(ref.name, ref.registry) for ref in parent.secrets}
    foreign = next((ref.name for ref in child.secrets if (ref.name, ref.registry) not in given), None)
    if foreign is not None:
        return f"it was not given secret {foreign}", "declare the secret in the parent too"
    if child.array is not None:
        return "an array counts as one call and is many jobs", "call once for each task"
    if child.children > parent.children:
        return f"it may submit {parent.children} jobs and asks for {child.children}", "ask for no more"
    if child.reservation not in (None, parent.reservation):
        return f"it is not in reservation {child.reservation}", "submit the parent with that reservation"
    if not set(projects_of(child)) <= set(projects_of(parent)):
        return "its files are those of another project", "leave the project out: the child starts with its parent's"
    if parent.network == "none" and child.image not in (None, parent.image):
        # The node asks the registry: whatever stands in the name would leave a job that is to have no network.
        return "it has no network, and another image would be fetched by one", "leave the image out, or name its own"
    if not set(child.notify) <= set(parent.notify):
        return "it tells other channels than its parent", "declare the channels in the parent too"
    return None
