"""``walras local``: the whole market on this machine, with no cluster."""
