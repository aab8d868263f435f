"""Credits for lent cores and memory, beside clusters without them."""
