"""Daily books: use and cost by day, summed so that nothing is lost and nothing counts twice."""
