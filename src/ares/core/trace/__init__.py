"""A job's way as a trace, derived from its ledger."""
