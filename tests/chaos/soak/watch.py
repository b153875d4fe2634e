"""Memory and open files of every process of a platform, looked at again and again."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.chaos.storms.gauges import Held, held

# No process of these platforms has a reason to hold more.
RSS_MAX_MIB = 400.0
FILES_MAX = 400
# What a process that lives through the whole soak may gain after its first minutes: for good, and for each job kept.
GROWN_MIB = 64.0
JOB_KIB = 16.0
_SETTLED = 5


@dataclass
class Watch:
    """What each process held, by its name and id, in the order it was looked at."""

    seen: dict[tuple[str, int], list[Held]] = field(default_factory=dict[tuple[str, int], list[Held]])

    def look(self, processes: Iterable[tuple[str, int]]) -> None:
        for name, pid in processes:
            try:
                self.seen.setdefault((name, pid), []).append(held(pid))
            except (OSError, KeyError):
                # It has just ended.
                continue

    def check(self, jobs: int) -> list[str]:
        """Who held too much, or grew for as long as it lived."""
        wrong: list[str] = []
        for (name, pid), looks in self.seen.items():
            peak, files = max(look.rss for look in looks), max(look.files for look in looks)
            if peak > RSS_MAX_MIB or files > FILES_MAX:
                wrong.append(f"{name} ({pid}) held {peak:.0f} MiB and {files} files")
            settled = looks[_SETTLED:]
            if settled and settled[-1].rss - settled[0].rss > GROWN_MIB + jobs * JOB_KIB / 1024:
                wrong.append(f"{name} ({pid}) grew from {settled[0].rss:.0f} to {settled[-1].rss:.0f} MiB")
        return wrong

    def longest(self) -> list[str]:
        """In words, those that lived longest."""
        ranked = sorted(self.seen.items(), key=lambda item: -len(item[1]))[:4]
        return [
            f"{name}: {looks[0].rss:.0f} -> {looks[-1].rss:.0f} MiB (at most {max(look.peak for look in looks):.0f}), "
            f"{looks[0].files} -> {looks[-1].files} files, {len(looks)} looks"
            for (name, _), looks in ranked
        ]
