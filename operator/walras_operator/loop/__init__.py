"""When the operator decides: one thread, the pace of its decisions, and its health."""
