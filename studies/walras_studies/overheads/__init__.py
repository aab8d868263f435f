"""How long decisions take."""
