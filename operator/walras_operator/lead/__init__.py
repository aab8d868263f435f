"""Which of several operators leads: a Lease, and the thread that renews it."""
