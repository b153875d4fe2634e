"""All of them."""

from tests.unit.check.invariants import cases_of_ends, cases_of_limits, cases_of_needs, cases_of_records
from tests.unit.check.invariants.case import CASES, Case

__all__ = ["CASES", "Case", "cases_of_ends", "cases_of_limits", "cases_of_needs", "cases_of_records"]
