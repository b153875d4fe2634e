"""What a replica measures of the cluster and of itself."""
