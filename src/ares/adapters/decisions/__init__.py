"""Where the scheduler's decisions are kept."""
