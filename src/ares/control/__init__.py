"""Short async loops that connect the pure core with the ports."""
