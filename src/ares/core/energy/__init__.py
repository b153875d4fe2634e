"""What running jobs draw and cost: watts and prices of machines, and what an attempt uses of them. Pure."""
