"""Cost, budgets and reports, from the daily books."""
