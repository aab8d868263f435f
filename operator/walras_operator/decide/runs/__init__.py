"""Runs of jobs that bid for cores and memory: what a pod held on the mean, and what came of it."""
