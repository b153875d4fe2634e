"""Where simulated jobs' output is kept: real files, on a disk that may be full."""

import errno

from ares.adapters.logs.files import FileLogs


class SimLogs(FileLogs):
    # A fault: there is room for a line of Ares' own and for nothing else.
    full = False

    def append(
        self, tenant: str, job: str, attempt: int, rank: int, offset: int, data: bytes, *, note: bool = False
    ) -> int:
        if self.full and data and not note:
            raise OSError(errno.ENOSPC, "no space left on the device")
        return super().append(tenant, job, attempt, rank, offset, data, note=note)
