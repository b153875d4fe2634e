"""Records of sessions in running jobs."""
