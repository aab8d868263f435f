"""Jobs on one machine without a cluster, pinned to CPUs by cgroups or by CPU affinity."""
