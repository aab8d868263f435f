"""What a cluster that has never heard of Walras would have of it, from its nodes and pods alone."""
