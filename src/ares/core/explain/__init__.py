"""Why a job waits, what would start it, and what both sides of an eviction are told."""
