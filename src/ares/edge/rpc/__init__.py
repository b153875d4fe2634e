"""The public gRPC service: a third form of the API, beside HTTP and WebSocket."""
