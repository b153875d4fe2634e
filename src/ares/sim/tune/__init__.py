"""Looks for a better profile on a trace, and says what it is worth on weeks it has not seen."""
