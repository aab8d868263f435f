"""``walras top``: what users, jobs and nodes are entitled to, have, use and pay."""
