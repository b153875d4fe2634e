"""How plans come about apart from those who serve: what the planner is told, what it answers, and who verifies it."""
