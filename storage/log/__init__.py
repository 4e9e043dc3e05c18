"""One log: its reads, writes, offsets, epochs and tasks."""
