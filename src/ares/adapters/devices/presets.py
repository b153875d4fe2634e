"""Machines to pretend to be, as data."""

from dataclasses import dataclass
from typing import Final

from ares.model.node import Gpu


@dataclass(frozen=True, slots=True)
class Preset:
    model: str
    memory_mib: int
    # The NUMA node of each GPU, in order.
    numa: tuple[int, ...]


PRESETS: Final[dict[str, Preset]] = {
    # AMD EPYC with four NUMA nodes per socket: GPU pairs hang off every second node.
    "dgx-a100": Preset("NVIDIA A100-SXM4-40GB", 40_960, (3, 3, 1, 1, 7, 7, 5, 5)),
    "dgx1-v100": Preset("Tesla V100-SXM2-16GB", 16_384, (0, 0, 0, 0, 1, 1, 1, 1)),
    "pcie-8x": Preset("NVIDIA RTX 6000 Ada Generation", 49_140, (0, 0, 0, 0, 1, 1, 1, 1)),
    "mi300x": Preset("AMD Instinct MI300X", 196_592, (0, 0, 0, 0, 1, 1, 1, 1)),
}
_PLAIN: Final = Preset("NVIDIA A100-SXM4-40GB", 40_960, ())
_PLAIN_COUNT: Final = 4
_COUNT_MAX: Final = 1024
_ON: Final = frozenset({"true", "yes", "on"})
_OFF: Final = frozenset({"", "false", "no", "off", "0"})


class UnknownMock(ValueError):
    """The mock setting names no machine."""


def mock_gpus(setting: str) -> tuple[Gpu, ...] | None:
    """The GPUs a setting asks for: "true", a count, or a preset's name. None when it asks for none."""
    wanted = setting.strip().lower()
    if wanted in _OFF:
        return None
    if wanted in _ON:
        return _gpus("a100", _PLAIN, (0,) * _PLAIN_COUNT)
    if wanted.isascii() and wanted.isdigit() and int(wanted) <= _COUNT_MAX:
        return _gpus("a100", _PLAIN, (0,) * int(wanted))
    if wanted in PRESETS:
        return _gpus(wanted, PRESETS[wanted], PRESETS[wanted].numa)
    raise UnknownMock(
        f"no mock machine is called {setting!r}: use true, a count up to {_COUNT_MAX}, or one of {', '.join(PRESETS)}"
    )


def _gpus(name: str, preset: Preset, numa: tuple[int, ...]) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            index=index,
            uuid=f"MOCK-{name}-{index}",
            model=preset.model,
            memory_mib=preset.memory_mib,
            numa_node=node,
            vendor="mock",
        )
        for index, node in enumerate(numa)
    )
