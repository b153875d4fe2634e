"""Jobs that wait for a person, a time or other jobs, and workflows of such jobs."""
