"""Which cluster a job goes to: filters that are hard rules, then a sum in seconds whose every term is kept."""
