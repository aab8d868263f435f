"""Measures how much a program speeds up with cores and slows down with data."""
