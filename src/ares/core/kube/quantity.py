"""Kubernetes' quantities, such as 500m, 2Gi or 1e3, as whole numbers."""

from decimal import ROUND_CEILING, Decimal
from typing import Final

_SUFFIXES: Final = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}  # fmt: skip
# Of ten: no machine has more, and a number that long would take all memory to write out.
_POWER_MAX: Final = 24
_DIGITS: Final = "0123456789+-.eE"


def amount(text: str) -> Decimal:
    """0 where it cannot be read: what a node says is not believed, and a pod's request was checked by the server."""
    for cut in (2, 1, 0):
        number, suffix = (text[:-cut], text[-cut:]) if cut else (text, "")
        if suffix in _SUFFIXES and number and all(letter in _DIGITS for letter in number):
            try:
                value = Decimal(number) * _SUFFIXES[suffix]
            except ArithmeticError:
                return Decimal(0)
            return value if value.is_finite() and abs(value.adjusted()) <= _POWER_MAX else Decimal(0)
    return Decimal(0)


def milli(text: str) -> int:
    """CPUs in thousandths, rounded up as Kubernetes does."""
    return int((amount(text) * 1000).to_integral_value(ROUND_CEILING))


def mib(text: str) -> int:
    """Memory that there is, in whole MiB."""
    return int(amount(text) // 2**20)


def mib_asked(text: str) -> int:
    """Memory that is asked for, rounded up."""
    return int((amount(text) / 2**20).to_integral_value(ROUND_CEILING))


def count(text: str) -> int:
    return int(amount(text))
