"""Which cluster a job goes to: what clusters report, what was offered since, and what follows for a job."""
