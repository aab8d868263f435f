"""The interpreter's memory: when garbage is collected, and how many arenas there are."""
