"""The cluster: from what its API server says to who gets how many cores of which node."""
