"""What is kept of a specification is what the rules say of it, and little is kept."""

import msgspec

from ares.control.submit.known_specs import KnownSpecs
from ares.core.admit.admission import decide
from ares.core.admit.dedup import payload_sha256
from ares.core.admit.memory import MemoryShare, sized
from ares.model.job import JobSpec, Need, NeedsTimeout, Parent, Resources


def test_what_is_known_is_what_the_rules_say() -> None:
    known = KnownSpecs()
    for spec in (JobSpec(command=("true",)), JobSpec(command=()), JobSpec(command=("true",), array="0-3")):
        found = known.of(spec)
        assert found is known.of(spec)
        assert found.admitted == decide(spec)
        assert found.digest == payload_sha256(spec)
        assert found.encoded == msgspec.json.encode(spec)


def test_jobs_that_differ_by_name_and_needs_are_judged_as_if_alone() -> None:
    known, ok, twice = KnownSpecs(), Need(job="a"), Need(of=(Parent(job="a"), Parent(job="a")))
    wanted = [
        JobSpec(command=command, name=name, needs=needs, array=array, needs_timeout=timeout)
        for command in (("true",), ())
        for array in (None, "0-3", "3-0")
        for timeout in (None, NeedsTimeout(after_s=5.0))
        for name in ("x", "y")
        for needs in ((ok,), (ok, Need(job="b", on="end")), (twice,), (Need(job="a", each=True),), ())
    ]
    for spec in wanted:
        assert known.of(spec).admitted == decide(spec)


def test_memory_is_given_anew_when_the_machines_change() -> None:
    known, spec = KnownSpecs(), JobSpec(command=("true",), resources=Resources(cpu_milli=4000, memory_mib=0))
    for share in (MemoryShare(1024, 0), MemoryShare(2048, 0), MemoryShare(1024, 0)):
        assert known.of(spec).sized(share) == sized(spec, share)
        assert known.of(spec).sized(share) is known.of(spec).sized(share)


def test_few_are_kept_and_none_that_is_long() -> None:
    known, long = KnownSpecs(), JobSpec(command=("true", "x" * 5000))
    assert known.of(long) is not known.of(long)
    first = JobSpec(command=("true",))
    before = known.of(first)
    specs = [JobSpec(command=("true", str(number))) for number in range(1000)]
    for spec in specs:
        known.of(spec)
    assert known.of(first) is not before
