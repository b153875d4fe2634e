"""Mock machines, as data."""

from dataclasses import dataclass, field
from typing import Final

from ares.core.topology.cards import mig_kind
from ares.model.node import Gpu
from ares.ports.devices import Accelerators


def _all_pairs(count: int, word: str) -> tuple[str, ...]:
    return tuple(" ".join("X" if a == b else word for b in range(count)) for a in range(count))


@dataclass(frozen=True, slots=True)
class Preset:
    model: str
    memory_mib: int
    # The NUMA node of each GPU, in order.
    numa: tuple[int, ...]
    # A row of words per GPU, as `nvidia-smi topo -m` has them.
    links: tuple[str, ...] = ()
    # Profiles of the MIG slices of a GPU, by its index.
    mig: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    # How many devices of other kinds there are.
    devices: dict[str, int] = field(default_factory=dict[str, int])


PRESETS: Final[dict[str, Preset]] = {
    # AMD EPYC with four NUMA nodes per socket: GPU pairs hang off every second node. All pairs through NVSwitches.
    "dgx-a100": Preset("NVIDIA A100-SXM4-40GB", 40_960, (3, 3, 1, 1, 7, 7, 5, 5), _all_pairs(8, "NV12")),
    # A hybrid cube mesh: two links, one or none, so it matters much which GPUs a job gets.
    "dgx1-v100": Preset(
        "Tesla V100-SXM2-16GB", 16_384, (0, 0, 0, 0, 1, 1, 1, 1),
        (
            "X NV1 NV1 NV2 NV2 SYS SYS SYS",
            "NV1 X NV2 NV1 SYS NV2 SYS SYS",
            "NV1 NV2 X NV2 SYS SYS NV1 SYS",
            "NV2 NV1 NV2 X SYS SYS SYS NV1",
            "NV2 SYS SYS SYS X NV1 NV1 NV2",
            "SYS NV2 SYS SYS NV1 X NV2 NV1",
            "SYS SYS NV1 SYS NV1 NV2 X NV2",
            "SYS SYS SYS NV1 NV2 NV1 NV2 X",
        ),
    ),
    # Pairs on switches, two sockets, no NVLink.
    "pcie-8x": Preset(
        "NVIDIA RTX 6000 Ada Generation", 49_140, (0, 0, 0, 0, 1, 1, 1, 1),
        (
            "X PIX NODE NODE SYS SYS SYS SYS",
            "PIX X NODE NODE SYS SYS SYS SYS",
            "NODE NODE X PIX SYS SYS SYS SYS",
            "NODE NODE PIX X SYS SYS SYS SYS",
            "SYS SYS SYS SYS X PIX NODE NODE",
            "SYS SYS SYS SYS PIX X NODE NODE",
            "SYS SYS SYS SYS NODE NODE X PIX",
            "SYS SYS SYS SYS NODE NODE PIX X",
        ),
    ),
    "mi300x": Preset("AMD Instinct MI300X", 196_592, (0, 0, 0, 0, 1, 1, 1, 1), _all_pairs(8, "XGMI")),
    # One GPU whole, one cut into slices.
    "h100-mig": Preset(
        "NVIDIA H100 80GB HBM3", 81_559, (0, 0), _all_pairs(2, "NV18"),
        mig={1: ("3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb")},
    ),
    "tpu-v4": Preset("", 0, (), devices={"tpu-v4": 4}),
}  # fmt: skip
_PLAIN: Final = "NVIDIA A100-SXM4-40GB", 40_960
_PLAIN_COUNT: Final = 4
# No more were ever built around one switch; beyond it links are not known.
_SWITCHED_MAX: Final = 16
_COUNT_MAX: Final = 1024
_ON: Final = frozenset({"true", "yes", "on"})
_OFF: Final = frozenset({"", "false", "no", "off", "0"})


class UnknownMock(ValueError):
    """The mock setting names no machine."""


def mock_machine(setting: str) -> Accelerators | None:
    """What a setting asks for: "true", a count of GPUs, or a preset's name. None when it asks for nothing."""
    wanted = setting.strip().lower()
    if wanted in _OFF:
        return None
    if wanted in _ON:
        return _pretend("a100", _plain(_PLAIN_COUNT))
    if wanted.isascii() and wanted.isdigit() and int(wanted) <= _COUNT_MAX:
        return _pretend("a100", _plain(int(wanted)))
    if wanted in PRESETS:
        return _pretend(wanted, PRESETS[wanted])
    raise UnknownMock(
        f"no mock machine is called {setting!r}: use true, a count up to {_COUNT_MAX}, or one of {', '.join(PRESETS)}"
    )


def _plain(count: int) -> Preset:
    return Preset(*_PLAIN, (0,) * count, _all_pairs(count, "NV12") if count <= _SWITCHED_MAX else ())


def _pretend(name: str, preset: Preset) -> Accelerators:
    gpus = tuple(
        Gpu(
            index=index,
            uuid=f"MOCK-{name}-{index}",
            model=preset.model,
            memory_mib=preset.memory_mib,
            numa_node=node,
            vendor="mock",
            mig=index in preset.mig,
        )
        for index, node in enumerate(preset.numa)
    )
    devices = {kind: tuple(f"{kind}-{n}" for n in range(count)) for kind, count in preset.devices.items()}
    for gpu, profiles in preset.mig.items():
        for n, profile in enumerate(profiles):
            kind = mig_kind(profile)
            devices[kind] = (*devices.get(kind, ()), f"MIG-MOCK-{name}-{gpu}-{n}")
    return Accelerators(gpus, tuple(tuple(row.split()) for row in preset.links), devices)
