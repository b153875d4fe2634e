"""How much each may have: rates and turns."""
