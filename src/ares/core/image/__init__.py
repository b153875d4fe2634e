"""Container images: what a job may name, what an image says of itself, and how a job runs in it."""
