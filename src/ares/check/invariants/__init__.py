"""What Ares promises, as predicates over histories (E1 to E27), written without any of the code that keeps them."""
