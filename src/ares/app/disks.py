"""The disks of a server: what is reserved on each, and what tenants may hold there."""

from dataclasses import dataclass

from ares.adapters.disk_quota import DiskShares, Reserve, TenantRoom
from ares.app.config import Config


@dataclass(frozen=True, slots=True)
class ServerDisks:
    """`ports.disk.Reserves`, and the room that each kind of file has."""

    home: TenantRoom
    logs: TenantRoom
    outputs: TenantRoom
    reserves: tuple[tuple[str, Reserve], ...]

    def short(self) -> str:
        """The first of its disks on which less is left than is reserved, in words; empty when there is none."""
        return next((f"{where}: {lacking}" for where, one in self.reserves if (lacking := one.short())), "")


def rooms_of(config: Config) -> ServerDisks:
    limits = config.limits
    paths = {"home": config.home_path, "logs": config.logs_path, "outputs": config.outputs_path}
    for path in paths.values():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    reserves = {name: Reserve(path, limits.disk_reserve_mib, limits.disk_reserve_files) for name, path in paths.items()}
    logs = DiskShares(config.logs_path, limits.tenant_log_mib_max, limits.tenant_files_max)
    outputs = DiskShares(config.outputs_path, limits.tenant_output_mib_max, limits.tenant_files_max)
    return ServerDisks(
        home=TenantRoom(reserves["home"]),
        logs=TenantRoom(reserves["logs"], logs),
        outputs=TenantRoom(reserves["outputs"], outputs),
        reserves=tuple(reserves.items()),
    )
