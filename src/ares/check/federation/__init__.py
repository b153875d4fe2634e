"""Judges of a federation's history: they know the records and none of the code that writes them."""
