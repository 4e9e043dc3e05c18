"""Tiered storage: which segments are in remote storage, and which are due for copying and expiry (KIP-405)."""
