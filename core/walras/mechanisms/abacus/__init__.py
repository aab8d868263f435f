"""Abacus: auctions of several resources among jobs with budgets (Ding et al., 2015)."""
