"""`python -m ares` is the command line."""

from ares.edge.cli.main import main

main()
