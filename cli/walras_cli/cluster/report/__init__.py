"""``walras report``: what each user was entitled to, held and paid over a time."""
