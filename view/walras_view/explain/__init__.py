"""Pure: everything about one job, user, node or node pool, and why it is so."""
