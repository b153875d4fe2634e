"""Inputs of jobs: the dataset that each names, and the version of it that the job is given for good."""

from msgspec.structs import replace

from ares.control.state.view import View
from ares.control.submit.draft import Checked
from ares.core.dataset import DatasetRef, parse_ref
from ares.core.refusal import Refusal
from ares.model.job import VERSION_MARK, DataInput, JobSpec

_MIB = 1 << 20


class InputVersions:
    """A dataset of another tenant and one that does not exist are the same answer."""

    def __init__(self, view: View) -> None:
        self._view = view

    async def given(self, checked: Checked) -> Checked:
        """A job that is to be taken, with what it is given; or with why it is refused after all."""
        judged = checked.judged
        spec = await self.resolved(checked.who.tenant, judged.spec)
        if isinstance(spec, Refusal):
            return checked if checked.no is not None else checked._replace(no=spec)
        return checked if spec is judged.spec else checked._replace(judged=replace(judged, spec=spec))

    def now(self, tenant: str, spec: JobSpec) -> tuple[DataInput, ...] | None:
        """What a job is given that waited for data, where that is not what it says already; None when some of it is not
        there."""
        if all(given.from_ is None or VERSION_MARK in given.from_ for given in spec.inputs):
            return ()
        found = self._resolved(tenant, spec, ())
        return None if isinstance(found, Refusal) else found.inputs

    async def resolved(self, tenant: str, spec: JobSpec) -> JobSpec | Refusal:
        """The job with the version and the size of each dataset it reads."""
        if all(given.from_ is None for given in spec.inputs):
            return spec
        # Data that it waits for may not be there yet: it is given what there is when it is released.
        awaited = tuple(need.data for need in spec.needs if need.data is not None)
        found = self._resolved(tenant, spec, awaited)
        if isinstance(found, Refusal):
            # It may have been published through another replica a moment ago.
            await self._view.catch_up()
            found = self._resolved(tenant, spec, awaited)
        return found

    def _resolved(self, tenant: str, spec: JobSpec, awaited: tuple[str, ...]) -> JobSpec | Refusal:
        inputs = list[DataInput]()
        for place, given in enumerate(spec.inputs):
            later = given.from_ is None or (given.from_ in awaited and VERSION_MARK not in given.from_)
            found = given if later or given.from_ is None else self._version(tenant, given, given.from_)
            if isinstance(found, Refusal):
                return replace(found, path=f"$.spec.inputs[{place}]")
            inputs.append(found)
        return replace(spec, inputs=tuple(inputs))

    def _version(self, tenant: str, given: DataInput, text: str) -> DataInput | Refusal:
        ref = parse_ref(text)
        record = self._view.kept.datasets.get(f"{tenant}/{ref.name}")
        if record is None:
            message = f"input {given.name}: the tenant has no dataset {ref.name}"
            fix = f"publish it: `ares data put DIR {ref.name}`; `ares data ls` lists those there are"
            return Refusal(code="dataset-unknown", message=message, fix=fix)
        version = record.version(ref.sha256) if ref.sha256 else record.versions[-1]
        if version is None:
            message = f"input {given.name}: dataset {ref.name} has no version {ref.sha256[:12]}"
            fix = f"`ares data show {ref.name}` lists its {len(record.versions):,} versions"
            return Refusal(code="dataset-unknown", message=message, fix=fix)
        size_mib = max(1, -(-version.bytes // _MIB))
        return replace(given, from_=str(DatasetRef(ref.name, version.sha256)), size_mib=size_mib)
