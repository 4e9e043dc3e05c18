"""Client metrics (KIP-714): receive what clients push, keep it for a while, and show it on the metrics endpoint."""
