"""Speedup by cores: the law, fits of measured times, and what they fail to say."""
