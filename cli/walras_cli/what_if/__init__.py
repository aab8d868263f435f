"""``walras what-if``: what the market would decide on a cluster's documents, and its rivals."""
