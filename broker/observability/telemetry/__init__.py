"""What clients push of their own metrics (KIP-714): read, kept for a while, and shown on the metrics' endpoint."""
