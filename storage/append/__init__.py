"""Validation and preparation of appended batches."""
