"""Deadlines: the cores that jobs need to end in time, reserved by their users' budgets."""
