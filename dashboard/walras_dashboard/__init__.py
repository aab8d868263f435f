"""The dashboard: the market as a page in the browser, and as a JSON API.

What it shows comes from the functions of ``walras top``, ``walras explain`` and ``walras what-if``;
it decides and derives nothing itself, and writes nothing to a cluster.
"""
