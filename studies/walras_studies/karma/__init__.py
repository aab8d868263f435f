"""Memory by credits: what the paper of Karma draws, and what it compares."""
