"""Segments of a log: their files, and walking over the batches in them."""
