"""Copy topics of another cluster continuously, with the same offsets, timestamps and groups."""
