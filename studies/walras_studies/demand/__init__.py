"""What it is worth that the market learns how many cores programs can use."""
