"""What to write, decided from all that the operator knows at one moment: pure functions."""
