"""Has the speedup of jobs measured on nodes, whose jobs do not say it."""
