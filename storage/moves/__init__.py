"""Moving a log from one log directory to another (KIP-113)."""
