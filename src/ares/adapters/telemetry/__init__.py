"""Metrics by prometheus-client, spans by the OpenTelemetry API."""
