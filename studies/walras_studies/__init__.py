"""``walras simulate``: the studies of the five papers, and some of what they leave open."""
