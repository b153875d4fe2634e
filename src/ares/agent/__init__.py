"""The node agent: holds attempts while it has the right to, and reports on them until it is heard."""
