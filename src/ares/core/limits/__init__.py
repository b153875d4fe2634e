"""How much each tenant and client may have: rates and turns."""
