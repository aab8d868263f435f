"""Memory of pods: limits lowered in steps that cannot end in an OOM kill, and raised at once."""
