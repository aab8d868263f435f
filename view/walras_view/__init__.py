"""What people are shown of a market, as values: the terminal prints them, the page gets them.

Facts are what a viewer may see of a cluster. Rows and explanations are made of facts, and sentences
of these. A field that is added to one of them is in ``-o json`` and in the page's API at once.
"""
