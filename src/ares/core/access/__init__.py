"""Access: what each role may do, and how a presented token is checked."""
