"""One machine without a cluster: jobs held to CPUs by groups of their own, or by CPU affinity."""
