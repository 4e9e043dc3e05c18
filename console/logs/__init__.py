"""Read the broker's data directory: folders, segments, batches, index entries. Nothing is written."""
