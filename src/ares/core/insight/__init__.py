"""What is odd in series of numbers, and what is to be expected of demand, with how good that has been."""
