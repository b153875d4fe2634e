"""What GPU models draw at full load and when nothing runs on them: board power by the makers' data sheets.

Idle draw is hardly ever in a data sheet: those are round figures of what drivers report for idle boards.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from ares.core.topology.cards import words


class Card(NamedTuple):
    """Watts of one GPU as drivers count them: of boards with two GPUs, half a board."""

    watts: float
    idle: float


# For a GPU that nobody knows.
UNKNOWN: Final = Card(300.0, 30.0)
# Where only the full load is known.
IDLE_SHARE: Final = 0.1

# By words of the model's name. Of the entries that match, the one with the most words counts.
KNOWN: Final[dict[str, Card]] = {
    # NVIDIA, data centre. Drivers call an H100 SXM "H100 80GB HBM3" and an H200 SXM just "H200".
    "GB200": Card(1200.0, 140.0),
    "B300": Card(1400.0, 150.0),
    "B200": Card(1000.0, 140.0),
    "B100": Card(700.0, 110.0),
    "GH200": Card(700.0, 75.0),
    "H200": Card(700.0, 75.0),
    "H200 NVL": Card(600.0, 70.0),
    "H100": Card(700.0, 70.0),
    "H100 PCIe": Card(350.0, 50.0),
    "H100 NVL": Card(400.0, 60.0),
    "H800": Card(700.0, 70.0),
    "H800 PCIe": Card(350.0, 50.0),
    "H20": Card(400.0, 60.0),
    "A100": Card(400.0, 55.0),
    "A100 PCIe": Card(300.0, 45.0),
    "A100 PCIe 40GB": Card(250.0, 35.0),
    "A800": Card(400.0, 55.0),
    "A40": Card(300.0, 30.0),
    "A30": Card(165.0, 25.0),
    "A16": Card(62.5, 12.0),
    "A10": Card(150.0, 20.0),
    "A10G": Card(300.0, 20.0),
    "A2": Card(60.0, 8.0),
    "L40": Card(300.0, 35.0),
    "L40S": Card(350.0, 35.0),
    "L20": Card(275.0, 30.0),
    "L4": Card(72.0, 12.0),
    "T4": Card(70.0, 10.0),
    "V100": Card(300.0, 40.0),
    "V100 PCIe": Card(250.0, 30.0),
    "V100S": Card(250.0, 30.0),
    "V100M16": Card(300.0, 40.0),
    "V100M32": Card(300.0, 40.0),
    "P100": Card(300.0, 35.0),
    "P100 PCIe": Card(250.0, 30.0),
    "P40": Card(250.0, 20.0),
    "P4": Card(75.0, 8.0),
    "M40": Card(250.0, 20.0),
    "M60": Card(150.0, 15.0),
    "K80": Card(150.0, 25.0),
    # NVIDIA, workstation and consumer.
    "RTX PRO 6000": Card(600.0, 30.0),
    "RTX 6000 Ada": Card(300.0, 25.0),
    "RTX 5000 Ada": Card(250.0, 20.0),
    "RTX A6000": Card(300.0, 25.0),
    "RTX A5000": Card(230.0, 20.0),
    "RTX A4000": Card(140.0, 12.0),
    "Quadro RTX 8000": Card(260.0, 20.0),
    "Quadro RTX 6000": Card(260.0, 20.0),
    "TITAN RTX": Card(280.0, 15.0),
    "TITAN V": Card(250.0, 25.0),
    "TITAN Xp": Card(250.0, 10.0),
    "5090": Card(575.0, 25.0),
    "5080": Card(360.0, 15.0),
    "4090": Card(450.0, 20.0),
    "4080": Card(320.0, 15.0),
    "3090": Card(350.0, 20.0),
    "3090 Ti": Card(450.0, 20.0),
    "3080": Card(320.0, 20.0),
    "3080 Ti": Card(350.0, 20.0),
    "3070": Card(220.0, 15.0),
    "2080": Card(215.0, 15.0),
    "2080 Super": Card(250.0, 15.0),
    "2080 Ti": Card(250.0, 15.0),
    "1080": Card(180.0, 10.0),
    "1080 Ti": Card(250.0, 10.0),
    # AMD. An MI250 is two GPUs to its driver.
    "MI325X": Card(1000.0, 140.0),
    "MI300X": Card(750.0, 130.0),
    "MI300A": Card(550.0, 100.0),
    "MI250": Card(250.0, 45.0),
    "MI250X": Card(250.0, 45.0),
    "MI210": Card(300.0, 40.0),
    "MI100": Card(290.0, 35.0),
    "MI60": Card(300.0, 20.0),
    "MI50": Card(300.0, 20.0),
}


@lru_cache(4096)
def known(model: str) -> Card | None:
    """What is known of a model by the name its driver gives it."""
    found = matching(tuple(KNOWN), model)
    return None if found is None else KNOWN[found]


def matching(names: tuple[str, ...], model: str) -> str | None:
    """The name whose words are all in the model's: the one with the most of them, the first of equals."""
    here = words(model)
    fits = [name for name in names if words(name) <= here]
    return max(fits, key=lambda name: len(words(name)), default=None)
