"""The commands that ask a cluster: ``walras top``, ``explain``, and ``what-if`` on live objects."""
