"""Karma: slices of one resource shared over time by credits (Vuppalapati et al., OSDI 2023)."""
