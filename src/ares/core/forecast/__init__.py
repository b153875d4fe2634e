"""How long jobs run: what they say themselves, and what like jobs did."""
