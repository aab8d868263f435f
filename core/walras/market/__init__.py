"""What comes to market: the snapshot, users' rights, money and obligations, and the plan."""
