"""Remote storage: stores of objects, and the layouts of segments in them (KIP-405)."""
