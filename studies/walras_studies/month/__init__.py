"""A month of a cluster: cores by market and memory by credits together."""
