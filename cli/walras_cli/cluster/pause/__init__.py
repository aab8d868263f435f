"""``walras pause`` and ``walras resume``: grants stay as they are, by a field of their objects."""
