"""Record, show and replay sessions of clients."""
