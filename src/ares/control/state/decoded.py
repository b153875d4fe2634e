"""Records of jobs as objects: like specifications share one, and what this process itself writes is never decoded."""

import msgspec

from ares.core.admit.placement import at_least
from ares.model.isolation import Isolation
from ares.model.job import JobSpec
from ares.model.state import JobState

_SPECS_MAX = 4096
_EXPECTED_MAX = 8192


class DecodedJobs:
    def __init__(self) -> None:
        self._decode_state = msgspec.json.Decoder(JobState).decode
        self._decode_spec = msgspec.json.Decoder(JobSpec).decode
        self._specs: dict[tuple[bytes, Isolation], JobSpec] = {}
        # States on their way to the store, by their bytes.
        self._expected: dict[bytes, JobState] = {}

    def expect(self, state: JobState, as_state: bytes, spec: JobSpec, as_spec: bytes, least: Isolation) -> None:
        """A new job is about to be written as these bytes. If it never is, nothing comes of this."""
        if len(self._expected) >= _EXPECTED_MAX:
            self._expected.clear()
        self._expected[as_state] = state
        if (as_spec, least) not in self._specs:
            self._keep(as_spec, least, spec)

    def state(self, raw: bytes) -> JobState:
        return self._expected.pop(raw, None) or self._decode_state(raw)

    def spec(self, raw: bytes, least: Isolation) -> JobSpec:
        """Bursts of like jobs cost one decode. `least`: by its tenant."""
        spec = self._specs.get((raw, least))
        return self._keep(raw, least, self._decode_spec(raw)) if spec is None else spec

    def _keep(self, raw: bytes, least: Isolation, spec: JobSpec) -> JobSpec:
        if len(self._specs) >= _SPECS_MAX:
            self._specs.clear()
        kept = self._specs[raw, least] = at_least(spec, least)
        return kept
