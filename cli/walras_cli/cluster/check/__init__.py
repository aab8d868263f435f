"""``walras check``: what in a cluster works against the market, and what to do about it."""
