"""The API of Walras: its kinds as models, and the cluster's objects as a snapshot of the market."""
