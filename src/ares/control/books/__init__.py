"""Daily books: what each day had and used, closed once by the leader, and what is read from them."""
