"""What running jobs draw and cost: watts and prices of machines, and what attempts use of them. Pure."""
