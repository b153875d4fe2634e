"""Removes projects that no job needs any more. Leader only.

A project stays while the records of a job that names it stay, also of one that has ended: it may be run again. So it
does while a schedule or a dataset names it. After that, and when no job ever came, it stays for a day after it was last
shipped. Parts of an upload that was never finished stay for a day, too.
"""

import re

import structlog

from ares.control.state.pacing import LOOKED_AT, breathe
from ares.control.state.view import View
from ares.core import keys
from ares.model.job import projects_of
from ares.ports.clock import Clock
from ares.ports.projects import ProjectFiles
from ares.ports.store import Store, StoreError

log = structlog.get_logger()

_LOOK_EVERY_S = 3600.0
KEPT_S = 86_400.0
# In a specification as it is stored. In a text of the job each quotation mark has a backslash before it.
_PROJECT = re.compile(rb'(?:"project":"|"from":"ares://datasets/[a-z0-9._-]+@sha256:)([0-9a-f]{64})"')


class ProjectCleanup:
    def __init__(
        self, files: ProjectFiles | None, store: Store, view: View, clock: Clock, kept_s: float = KEPT_S
    ) -> None:
        self._files = files
        self._store = store
        self._view = view
        self._clock = clock
        self._kept_s = kept_s
        self._parts_at = float("-inf")

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_LOOK_EVERY_S)
            try:
                await self.sweep()
            except (OSError, StoreError) as error:
                # Only logged: an error would end this loop, and with it the leadership.
                log.warning("projects.files_left", error=str(error))

    async def sweep(self) -> int:
        """Returns how many bytes were freed."""
        if self._files is None:
            return 0
        unused = await self._files.unused(self._kept_s)
        gone = dict[str, list[str]]()
        if (now := self._clock.monotonic()) - self._parts_at >= self._kept_s:
            # Also where no project goes there may be parts that none names. To find them takes all manifests.
            self._parts_at = now
            gone.update((tenant, []) for tenant in await self._files.tenants())
        named = await self._named() if unused else set[bytes]()
        for tenant, sha256 in unused:
            if sha256.encode() not in named:
                gone.setdefault(tenant, []).append(sha256)
        freed = 0
        for tenant in sorted(gone):
            freed += await self._files.forget(tenant, gone[tenant], self._kept_s)
        if freed:
            log.info("projects.swept", bytes=freed)
        return freed

    async def _named(self) -> set[bytes]:
        """Digests that any job or schedule names. Of whichever tenant: what is kept too long does no harm.

        Read after the list of unused ones was made: a job that came since then has touched its project, which `forget`
        sees. From the store: the view has no specifications of jobs that have ended."""
        named, after = set[bytes](), ""
        while True:
            page = await self._store.range(keys.JOBS, after=after, limit=LOOKED_AT)
            for kv in page.kvs:
                named.update(_PROJECT.findall(kv.value))
            if not page.more:
                break
            after = page.kvs[-1].key
            await breathe()
        await self._view.catch_up()
        for cron in self._view.kept.crons.values():
            named.update(project.encode() for project in projects_of(cron.spec))
        for dataset in self._view.kept.datasets.values():
            named.update(version.sha256.encode() for version in dataset.versions)
        return named
