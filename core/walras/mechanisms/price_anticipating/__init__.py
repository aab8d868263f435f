"""The proportional-share market for price-anticipating users (Feldman, Lai and Zhang, 2009)."""
