"""From pairs to nodes: which pods are sent where, who is let go, and what their users are told."""
