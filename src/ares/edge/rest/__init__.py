"""The HTTP API: REST, server-sent events and WebSockets."""
