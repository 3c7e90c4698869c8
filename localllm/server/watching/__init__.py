"""Monitoring: metrics, liveness, readiness, costs of requests.

Changes nothing and knows no API. Begin with `metrics`.
"""
