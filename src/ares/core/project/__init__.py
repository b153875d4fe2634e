"""What a project may hold."""
