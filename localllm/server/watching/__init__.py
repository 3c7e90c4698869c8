"""Monitoring: metrics, liveness, readiness, costs of requests."""
