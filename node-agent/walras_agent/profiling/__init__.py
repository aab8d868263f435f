"""Measures how a pod speeds up with cores while it runs."""
