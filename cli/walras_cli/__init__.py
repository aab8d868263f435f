"""The command ``walras``."""
