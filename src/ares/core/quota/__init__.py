"""How much of everything a tenant, its teams and its users may have: counted, priced and judged."""
