"""E8: no node is overcommitted, and no tenant, team or user exceeds its limits."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ares.check.invariants.books import CommittedStep
from ares.check.invariants.records import ENDED, Array, Machine, Place, Profile, State
from ares.check.invariants.rule import Rule

_WHOLE = 1000
# Rules by which one job leaves for another.
_FOR_ANOTHER = frozenset({"priority", "reclaim", "service"})
_WAITING = frozenset({"PENDING", "PREEMPTED"})


class Quota(Rule):
    """Whenever ranks are granted: what may be alive on their nodes, lingering ranks included, fits into CPUs, memory,
    GPUs, shares of GPUs and devices of the machine as it was registered for that grant; and what the job's user, team
    and tenant hold is within their hard shares, and licences within their number.

    A scheduler may go by a profile that was replaced a moment ago; it reads everything anew when it is elected. So the
    most generous profile since the latest election counts. Room is kept only for a job that waits, and no job is
    preempted for one that does not wait. A new job fits into its tenant's quota of jobs, as that is at its commit."""

    id = "E8"
    title = "nothing is given away twice, nobody gets more than its share"
    notes = ("/arrays/",)

    def note(self, name: Any, before: Array | None, after: Array | None) -> None:
        if before is None and after is not None:
            self._within_quota(name, after.tenant)

    def step(self, step: CommittedStep) -> None:
        after = step.after
        if after is None or not step.wrote:
            return
        if step.before is None and after.array is None:
            self._within_quota(step.job, after.tenant)
        if step.added:
            self.tested += 1
            for place in {(place.node, place.incarnation): place for place in step.added}.values():
                self._fits(step.job, after, place)
            self._within_shares(step.job, after)
            self._within_throttle(step.job, after)
        if (after.hold or after.evicting) and after.phase not in _WAITING:
            self.blame(step.job, f"is {after.phase}, and room is kept for it")
        for entry in step.entries:
            if entry.kind == "preempted" and entry.data.rule in _FOR_ANOTHER:
                self.tested += 1
                if not any(
                    state.phase == "PENDING" and step.job in state.evicting for state in self.books.states.values()
                ):
                    self.blame(step.job, "leaves its place, and nobody waits for it")

    # ---- quotas

    def _within_quota(self, job: str, tenant: str) -> None:
        """A new job or array fits into what its tenant may have, tasks that do not exist yet included."""
        quota = self.books.quotas.get(tenant)
        limit = None if quota is None else quota.quota.own.amounts.get("jobs")
        if quota is None or limit is None or limit.hard is None:
            return
        self.tested += 1
        mine = [state for state in self.books.states.values() if state.tenant == tenant]
        created: defaultdict[str | None, int] = defaultdict(int)
        for state in mine:
            created[state.array] += 1
        arrays = (array for array in self.books.arrays.values() if array.tenant == tenant and not array.expanded)
        used = sum(state.phase not in ENDED for state in mine) + sum(
            array.tasks - created[array.id] for array in arrays
        )
        # Jobs come in pieces: the threshold cuts nothing off.
        if used > limit.hard:
            self.blame(job, f"{tenant} has {used} jobs with it, its quota is {limit.hard:g}")

    def _within_throttle(self, job: str, state: State) -> None:
        """Tasks of a throttled array that may be alive are no more than may be, at each grant of one."""
        array = None if state.array is None else self.books.arrays.get(state.array)
        if array is None or array.throttle is None:
            return
        self.tested += 1
        states = self.books.states
        tasks = (states.get(task) for task, ranks in self.books.alive.items() if ranks)
        alive = sum(task is not None and task.array == array.id for task in tasks)
        if alive > array.throttle:
            self.blame(job, f"{alive} tasks of array {array.id} have a place, {array.throttle} may at once")

    # ---- machines

    def _fits(self, job: str, state: State, place: Place) -> None:
        machine = self.books.machines.get((place.node, place.incarnation))
        if machine is None:
            self.blame(job, f"was granted {place.node} in incarnation {place.incarnation}, which never was")
            return
        held = self.books.on_node[place.node].values()
        cpu, memory = sum(rank.cpu_milli for rank in held), sum(rank.memory_mib for rank in held)
        most_cpu, most_memory = self._most(machine, state)
        if cpu > most_cpu:
            self.blame(job, f"{place.node}: {cpu} of {most_cpu} milli-CPUs are given away")
        if memory > most_memory:
            self.blame(job, f"{place.node}: {memory} of {most_memory} MiB are given away")
        self._devices_fit(job, machine, held)
        known = {gpu.index for gpu in machine.gpus}
        if not known.issuperset(place.gpus):
            self.blame(job, f"was granted GPUs {place.gpus} of {place.node}, which has {sorted(known)}")

    def _most(self, machine: Machine, state: State) -> tuple[int, int]:
        """A job that is not guaranteed may see more than there is."""
        spec = self.books.spec_of(state)
        if spec is None or spec.qos == "guaranteed":
            return machine.cpu_milli, machine.memory_mib
        pools = [profile.pools[machine.pool] for profile in self._profiles() if machine.pool in profile.pools]
        cpu = max((pool.overcommit_cpu for pool in pools), default=1.0)
        memory = max((pool.overcommit_memory for pool in pools), default=1.0)
        return int(machine.cpu_milli * cpu), int(machine.memory_mib * memory)

    def _devices_fit(self, job: str, machine: Machine, held: Iterable[Place]) -> None:
        given: defaultdict[object, int] = defaultdict(int)
        for place in held:
            for gpu in place.gpus:
                given[f"GPU {gpu}"] += place.gpu_milli
            for ids in place.devices.values():
                for device in ids:
                    given[device] += _WHOLE
        for device, share in given.items():
            if share > _WHOLE:
                self.blame(job, f"{machine.name}: {device} is given away by {share} thousandths")

    # ---- shares

    def _profiles(self) -> list[Profile]:
        return self.books.in_force or [Profile()]

    def _within_shares(self, job: str, state: State) -> None:
        profiles = self._profiles()
        if all(profile.shares for profile in profiles):
            team, user = state.team or "default", state.submitted_by or "nobody"
            for path in (state.tenant, f"{state.tenant}/{team}", f"{state.tenant}/{team}/{user}"):
                hard = [profile.shares[path].hard if path in profile.shares else {} for profile in profiles]
                if all(hard):
                    self._within(job, path, hard)
        for licence in self.books.specs[state.array or job].licences if self.books.spec_of(state) else ():
            self.tested += 1
            used = sum(self._licences(holder, licence) for holder, ranks in self.books.alive.items() if ranks)
            most = max(profile.licences.get(licence, 0) for profile in profiles)
            if used > most:
                self.blame(job, f"{used} licences {licence!r} are in use, there are {most}")

    def _within(self, job: str, path: str, hard: list[dict[str, int]]) -> None:
        used = {"cpu": 0, "memory": 0, "gpu": 0}
        for holder, ranks in self.books.alive.items():
            state = self.books.states.get(holder)
            if not ranks or state is None or not _counts_for(state, path):
                continue
            for place in ranks.values():
                used["cpu"] += place.cpu_milli
                used["memory"] += place.memory_mib
                used["gpu"] += len(place.gpus) * place.gpu_milli
        for resource, amount in used.items():
            limits = [share.get(resource) for share in hard]
            if None not in limits:
                self.tested += 1
                most = max(limit for limit in limits if limit is not None)
                if amount > most:
                    self.blame(job, f"{path} holds {amount} of {resource}, its hard share is {most}")

    def _licences(self, job: str, licence: str) -> int:
        state = self.books.states.get(job)
        spec = None if state is None else self.books.spec_of(state)
        return 0 if spec is None else spec.licences.get(licence, 0)


def _counts_for(state: State, path: str) -> bool:
    account = f"{state.tenant}/{state.team or 'default'}/{state.submitted_by or 'nobody'}"
    return account == path or account.startswith(f"{path}/")
