"""What Walras would change in a cluster without it, from its nodes and pods alone."""
