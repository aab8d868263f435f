"""Gains of users who lie."""
