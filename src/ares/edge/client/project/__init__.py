"""The files of a directory, on their way to the jobs that start with them."""
