"""`python -m ares` is the command line."""

from ares.app.main import main

main()
