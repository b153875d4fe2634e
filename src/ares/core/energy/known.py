"""What GPU models draw at full load and when nothing runs on them: board power by the makers' data sheets.

Idle draw is hardly ever in a data sheet: the figures here are round values of what drivers report for idle boards.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from ares.core.topology.cards import words


class KnownCard(NamedTuple):
    """Watts of one GPU as drivers count them: of boards with two GPUs, half a board."""

    watts: float
    idle: float


# For a GPU of an unknown model.
UNKNOWN: Final = KnownCard(300.0, 30.0)
# The idle share of full load, where only the full load is known.
IDLE_SHARE: Final = 0.1

# By words of the model's name. Of the entries that match, the one with the most words counts.
KNOWN: Final[dict[str, KnownCard]] = {
    # NVIDIA, data centre. Drivers call an H100 SXM "H100 80GB HBM3" and an H200 SXM just "H200".
    "GB200": KnownCard(1200.0, 140.0),
    "B300": KnownCard(1400.0, 150.0),
    "B200": KnownCard(1000.0, 140.0),
    "B100": KnownCard(700.0, 110.0),
    "GH200": KnownCard(700.0, 75.0),
    "H200": KnownCard(700.0, 75.0),
    "H200 NVL": KnownCard(600.0, 70.0),
    "H100": KnownCard(700.0, 70.0),
    "H100 PCIe": KnownCard(350.0, 50.0),
    "H100 NVL": KnownCard(400.0, 60.0),
    "H800": KnownCard(700.0, 70.0),
    "H800 PCIe": KnownCard(350.0, 50.0),
    "H20": KnownCard(400.0, 60.0),
    "A100": KnownCard(400.0, 55.0),
    "A100 PCIe": KnownCard(300.0, 45.0),
    "A100 PCIe 40GB": KnownCard(250.0, 35.0),
    "A800": KnownCard(400.0, 55.0),
    "A40": KnownCard(300.0, 30.0),
    "A30": KnownCard(165.0, 25.0),
    "A16": KnownCard(62.5, 12.0),
    "A10": KnownCard(150.0, 20.0),
    "A10G": KnownCard(300.0, 20.0),
    "A2": KnownCard(60.0, 8.0),
    "L40": KnownCard(300.0, 35.0),
    "L40S": KnownCard(350.0, 35.0),
    "L20": KnownCard(275.0, 30.0),
    "L4": KnownCard(72.0, 12.0),
    "T4": KnownCard(70.0, 10.0),
    "V100": KnownCard(300.0, 40.0),
    "V100 PCIe": KnownCard(250.0, 30.0),
    "V100S": KnownCard(250.0, 30.0),
    "V100M16": KnownCard(300.0, 40.0),
    "V100M32": KnownCard(300.0, 40.0),
    "P100": KnownCard(300.0, 35.0),
    "P100 PCIe": KnownCard(250.0, 30.0),
    "P40": KnownCard(250.0, 20.0),
    "P4": KnownCard(75.0, 8.0),
    "M40": KnownCard(250.0, 20.0),
    "M60": KnownCard(150.0, 15.0),
    "K80": KnownCard(150.0, 25.0),
    # NVIDIA, workstation and consumer.
    "RTX PRO 6000": KnownCard(600.0, 30.0),
    "RTX 6000 Ada": KnownCard(300.0, 25.0),
    "RTX 5000 Ada": KnownCard(250.0, 20.0),
    "RTX A6000": KnownCard(300.0, 25.0),
    "RTX A5000": KnownCard(230.0, 20.0),
    "RTX A4000": KnownCard(140.0, 12.0),
    "Quadro RTX 8000": KnownCard(260.0, 20.0),
    "Quadro RTX 6000": KnownCard(260.0, 20.0),
    "TITAN RTX": KnownCard(280.0, 15.0),
    "TITAN V": KnownCard(250.0, 25.0),
    "TITAN Xp": KnownCard(250.0, 10.0),
    "5090": KnownCard(575.0, 25.0),
    "5080": KnownCard(360.0, 15.0),
    "4090": KnownCard(450.0, 20.0),
    "4080": KnownCard(320.0, 15.0),
    "3090": KnownCard(350.0, 20.0),
    "3090 Ti": KnownCard(450.0, 20.0),
    "3080": KnownCard(320.0, 20.0),
    "3080 Ti": KnownCard(350.0, 20.0),
    "3070": KnownCard(220.0, 15.0),
    "2080": KnownCard(215.0, 15.0),
    "2080 Super": KnownCard(250.0, 15.0),
    "2080 Ti": KnownCard(250.0, 15.0),
    "1080": KnownCard(180.0, 10.0),
    "1080 Ti": KnownCard(250.0, 10.0),
    # AMD. An MI250 is two GPUs to its driver.
    "MI325X": KnownCard(1000.0, 140.0),
    "MI300X": KnownCard(750.0, 130.0),
    "MI300A": KnownCard(550.0, 100.0),
    "MI250": KnownCard(250.0, 45.0),
    "MI250X": KnownCard(250.0, 45.0),
    "MI210": KnownCard(300.0, 40.0),
    "MI100": KnownCard(290.0, 35.0),
    "MI60": KnownCard(300.0, 20.0),
    "MI50": KnownCard(300.0, 20.0),
}


@lru_cache(4096)
def known(model: str) -> KnownCard | None:
    """What is known of a model, by the name its driver gives it."""
    found = matching(tuple(KNOWN), model)
    return None if found is None else KNOWN[found]


def matching(names: tuple[str, ...], model: str) -> str | None:
    """The name whose words are all in the model's: the one with the most of them, the first of equals."""
    here = words(model)
    fits = [name for name in names if words(name) <= here]
    return max(fits, key=lambda name: len(words(name)), default=None)
