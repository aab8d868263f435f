"""Deadlines of jobs: the work that pods have done and have left, and what their deadlines take."""
