"""What follows from a specification alone, found once for each: jobs of a batch, and of a sweep, are often alike.

A specification is known by its object: values that are read from equal bytes are one object (`StrictDecoder`)."""

from functools import cached_property

import msgspec

from ares.core.admit.admission import decide
from ares.core.admit.dedup import payload_sha256
from ares.core.admit.memory import MemoryShare, sized
from ares.core.refusal import Admission, Refusal
from ares.model.job import JobSpec

# So many are kept, and none that is longer.
_KNOWN_MAX = 512
_BYTES_MAX = 4096
_encode = msgspec.json.Encoder().encode


class KnownSpec:
    """A specification, its bytes as they are stored, and what the rules of admission make of it."""

    def __init__(self, spec: JobSpec) -> None:
        # Kept with it, so that no other object takes its place in memory.
        self.spec = spec
        self.encoded = _encode(spec)
        self._sized: tuple[MemoryShare | None, JobSpec] = (None, spec)

    @cached_property
    def admitted(self) -> Admission | Refusal:
        return decide(self.spec)

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

    def of(self, spec: JobSpec) -> KnownSpec:
        found = self._by_object.get(id(spec))
        if found is None:
            found = KnownSpec(spec)
            if len(self._by_object) >= _KNOWN_MAX:
                self._by_object.clear()
            if len(found.encoded) <= _BYTES_MAX:
                self._by_object[id(spec)] = found
        return found
