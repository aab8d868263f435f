"""Auctions: what the paper of Abacus draws, and what it compares."""
