"""The memory of pods: taken back in steps that cannot end in an OOM kill, given at once."""
