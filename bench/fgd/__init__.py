"""GPU fragmentation on a public trace: published policies and Ares on the same arrivals."""
