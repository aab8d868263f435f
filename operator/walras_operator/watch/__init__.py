"""What the operator knows of the cluster: watches, lookups, and the cache that they fill."""
