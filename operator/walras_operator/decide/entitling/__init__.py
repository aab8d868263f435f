"""Entitlements that follow what a cluster says of quotas elsewhere: Kueue or ResourceQuotas."""
