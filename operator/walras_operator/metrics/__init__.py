"""Figures of the market and of the operator, for Prometheus and for the history."""
