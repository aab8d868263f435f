"""``walras explain``: why a job, a user or a node has what it has, and what would change that."""
