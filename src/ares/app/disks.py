"""The disks of a server: what is reserved on each, and what tenants may hold there."""

from dataclasses import dataclass

from ares.adapters.disk_quota import Reserve, Room, Shares
from ares.app.config import Config


@dataclass(frozen=True, slots=True)
class Rooms:
    """`ports.disk.Reserves`, and the room that each kind of file has."""

    home: Room
    logs: Room
    outputs: Room
    reserves: tuple[tuple[str, Reserve], ...]

    def short(self) -> str:
        """The first of its disks on which less is left than is reserved, in words; empty when there is none."""
        return next((f"{where}: {lacking}" for where, one in self.reserves if (lacking := one.short())), "")


def rooms_of(config: Config) -> Rooms:
    limits = config.limits
    paths = {"home": config.home_path, "logs": config.logs_path, "outputs": config.outputs_path}
    for path in paths.values():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    reserves = {name: Reserve(path, limits.disk_reserve_mib, limits.disk_reserve_files) for name, path in paths.items()}
    logs = Shares(config.logs_path, limits.tenant_log_mib_max, limits.tenant_files_max)
    outputs = Shares(config.outputs_path, limits.tenant_output_mib_max, limits.tenant_files_max)
    return Rooms(
        home=Room(reserves["home"]),
        logs=Room(reserves["logs"], logs),
        outputs=Room(reserves["outputs"], outputs),
        reserves=tuple(reserves.items()),
    )
