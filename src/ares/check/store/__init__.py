"""Whether what a store holds now can have come about by the rules. Knows the records, not the code that writes them."""
