"""What Ares promises, as predicates over histories (E1 to E26), written without any of the code that keeps them."""
