"""Names for bytes on the disk: batches, records, messages and index entries as named spans. Pure."""
