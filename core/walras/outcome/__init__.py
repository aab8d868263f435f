"""What a decision means to each user, job and node, and what is kept of it over time."""
