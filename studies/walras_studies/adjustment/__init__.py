"""Bids adjusted by progress, in clusters of programs."""
