"""What pods hold over a month, and what it is worth."""
