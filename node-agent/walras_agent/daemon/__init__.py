"""The agent's process on a node: takes plans, enforces them, and reports how that goes."""
