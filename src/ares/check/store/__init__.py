"""Whether the content of a store can be the result of the rules. Knows the records, not the code that writes them."""
