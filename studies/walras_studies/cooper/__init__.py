"""Pairs of jobs: what the paper of Cooper draws, and what it compares."""
