"""Records in remote storage as consumers read them: fetches and look-ups by time (KIP-405)."""
