"""The main process of a rank with a runtime, and what it starts. Standard library only: it runs in the job's slot."""
