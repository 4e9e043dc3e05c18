"""The broker's data directory, read as it lies there: folders, segments, batches, index entries. Nothing is written."""
