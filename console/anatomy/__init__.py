"""What bytes on the disk are called: batches, records, messages and index entries as spans with names. Pure."""
