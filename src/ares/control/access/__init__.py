"""Access: tenants, users, tokens and machines' identities."""
