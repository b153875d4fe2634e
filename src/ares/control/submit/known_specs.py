"""What follows from a specification alone, found once for each: jobs of a batch, and of a sweep, are often alike.

A specification is known by its object: values that are read from equal bytes are one object (`StrictDecoder`)."""

from functools import cached_property

import msgspec
from msgspec.structs import replace

from ares.core.admit.admission import decide
from ares.core.admit.dedup import payload_sha256
from ares.core.admit.memory import MemoryShare, sized
from ares.core.admit.needs import needs
from ares.core.refusal import Admission, Refusal
from ares.model.job import JobSpec

# So many are kept, and none that is longer.
_KNOWN_MAX = 512
_BYTES_MAX = 4096
_encode = msgspec.json.Encoder().encode


class KnownSpec:
    """A specification, its bytes as they are stored, and what the rules of admission make of it."""

    def __init__(self, spec: JobSpec, passed: dict[bytes, Admission]) -> None:
        # Kept with it, so that no other object takes its place in memory.
        self.spec = spec
        self.encoded = _encode(spec)
        self._passed = passed
        self._sized: tuple[MemoryShare | None, JobSpec] = (None, spec)

    @cached_property
    def admitted(self) -> Admission | Refusal:
        """Of jobs that differ by their names and by what they wait for, the other rules are gone through once."""
        if not self.spec.needs or len(self.encoded) > _BYTES_MAX:
            return decide(self.spec)
        bare = replace(self.spec, name="", needs=())
        passed = self._passed.get(text := _encode(bare))
        if passed is None:
            if isinstance(passed := decide(bare), Refusal):
                # Without its needs another rule may be broken, and the first that is broken counts.
                return decide(self.spec)
            if len(self._passed) >= _KNOWN_MAX:
                self._passed.clear()
            self._passed[text] = passed
        return needs(self.spec) or passed

    @cached_property
    def digest(self) -> str:
        return payload_sha256(self.spec)

    def sized(self, share: MemoryShare) -> JobSpec:
        """With the memory that it does not say."""
        if self._sized[0] is not share:
            self._sized = share, sized(self.spec, share)
        return self._sized[1]


class KnownSpecs:
    """The latest of them."""

    def __init__(self) -> None:
        self._by_object: dict[int, KnownSpec] = {}
        # What passes all rules, by its bytes without name and needs.
        self._passed: dict[bytes, Admission] = {}

    def of(self, spec: JobSpec) -> KnownSpec:
        found = self._by_object.get(id(spec))
        if found is None:
            found = KnownSpec(spec, self._passed)
            if len(self._by_object) >= _KNOWN_MAX:
                self._by_object.clear()
            if len(found.encoded) <= _BYTES_MAX:
                self._by_object[id(spec)] = found
        return found
