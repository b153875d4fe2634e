"""The control plane's gRPC edge: agents connect here."""
