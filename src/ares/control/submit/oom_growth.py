"""More memory for the next attempt of a job that ran out of it, where the job asks for that.

It is an update like any other, judged by policies and quotas in the name of the job's submitter. Where it is refused
the job is repeated as it was, and its ledger says why.
"""

from ares.api.updates import JobUpdate, ResourceUpdate
from ares.control.state.view import View
from ares.control.submit.updates import Updates
from ares.core.lifecycle.retry import grown_mib
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.state import JobState

_BY = "controller"


class OomGrowth:
    def __init__(self, view: View, updates: Updates) -> None:
        self._view = view
        self._updates = updates

    async def grow(self, state: JobState) -> tuple[JobState, str]:
        """The job as it is then, and what its ledger is to say about it. Repeated, it does nothing more."""
        spec, raw = self._view.spec(state), self._view.specs.get(state.array or state.id)
        if spec is None or raw is None or spec.retry.oom_memory_factor <= 1.0:
            return state, ""
        wanted = grown_mib(self._view.decode_spec(raw), state, self._largest_mib())
        if wanted is None:
            return state, ""
        has = spec.resources.memory_mib
        if wanted <= has:
            return state, f"it keeps {has} MiB of memory, the most it may grow to"
        reason = f"out of memory with {has} MiB; the next attempt asks for {wanted} MiB"
        change = JobUpdate(resources=ResourceUpdate(memory_mib=wanted), reason=reason)
        grown = await self._updates.update(self._submitter(state), state.id, change, _BY)
        if isinstance(grown, JobState):
            return grown, ""
        why = grown.message if isinstance(grown, Refusal) else "it is gone"
        return state, f"it keeps {has} MiB of memory, {wanted} MiB were refused: {why}"

    def _largest_mib(self) -> int:
        return max((node.info.memory_mib for node in self._view.nodes.values()), default=0)

    def _submitter(self, state: JobState) -> Principal:
        user = self._view.kept.users.get(f"{state.tenant}/{state.submitted_by}")
        role = "submitter" if user is None else user.role
        name = "" if user is None else user.name
        return Principal(
            token_id=state.submitted_by, tenant=state.tenant, role=role, user=name, user_id=state.submitter_id,
            team=state.team,
        )  # fmt: skip
