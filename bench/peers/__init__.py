"""Other systems that run jobs, measured on the same machine in the same run."""
