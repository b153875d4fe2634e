"""Records of jobs as objects: like specifications share one, and what this process itself writes is never decoded."""

import msgspec

from ares.core.admit.placement import at_least
from ares.model.isolation import Isolation
from ares.model.job import JobSpec
from ares.model.state import JobState

# As many as the largest workflow has jobs, each with a name of its own, and some more: they are read again and again.
# Of jobs that say much there are fewer: an object takes about five times its bytes.
_SPECS_MAX = 16_384
_SPECS_BYTES_MAX = 4 * 1024 * 1024
_EXPECTED_MAX = 8192


class DecodedJobs:
    def __init__(self) -> None:
        self._decode_state = msgspec.json.Decoder(JobState).decode
        self._decode_spec = msgspec.json.Decoder(JobSpec).decode
        self.specs: dict[tuple[bytes, Isolation], JobSpec] = {}
        self._specs_bytes = 0
        # States on their way to the store, by their bytes.
        self._expected: dict[bytes, JobState] = {}

    def expect(self, state: JobState, as_state: bytes, spec: JobSpec, as_spec: bytes, least: Isolation) -> None:
        """A new job is about to be written as these bytes. If it never is, nothing comes of this."""
        self.expect_state(state, as_state)
        if (as_spec, least) not in self.specs:
            self._keep(as_spec, least, spec)

    def expect_state(self, state: JobState, as_state: bytes) -> None:
        """The next state of a job is about to be written as these bytes."""
        if len(self._expected) >= _EXPECTED_MAX:
            self._expected.clear()
        self._expected[as_state] = state

    def expect_no_more(self, as_state: bytes) -> None:
        """The view has heard of it, or it was not written."""
        self._expected.pop(as_state, None)

    def state(self, raw: bytes) -> JobState:
        return self._expected.pop(raw, None) or self._decode_state(raw)

    def spec(self, raw: bytes, least: Isolation) -> JobSpec:
        """Bursts of like jobs cost one decode. `least`: by its tenant."""
        spec = self.specs.get((raw, least))
        return self._keep(raw, least, self._decode_spec(raw)) if spec is None else spec

    def _keep(self, raw: bytes, least: Isolation, spec: JobSpec) -> JobSpec:
        self._specs_bytes += len(raw)
        if len(self.specs) >= _SPECS_MAX or self._specs_bytes > _SPECS_BYTES_MAX:
            self.specs.clear()
            self._specs_bytes = len(raw)
        kept = self.specs[raw, least] = at_least(spec, least)
        return kept
