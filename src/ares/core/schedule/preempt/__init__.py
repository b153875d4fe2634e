"""Who has to go when somebody else needs the place: who may be evicted, at what cost, and who is chosen."""
