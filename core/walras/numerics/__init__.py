"""Arrays, compiled kernels, and division of a capacity within bounds."""
