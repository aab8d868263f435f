"""One node of Walras: its processors, its cgroups, and who holds which of them."""
