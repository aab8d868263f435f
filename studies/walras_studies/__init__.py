"""``walras simulate``: studies that repeat the papers' evaluations, or ask further questions."""
