"""The economics of Walras: pure functions on values, with no I/O and no clock."""
