"""What would come of other nodes, bids or claims, and how good a plan is."""
