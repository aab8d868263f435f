"""Measures how running pods speed up with cores."""
