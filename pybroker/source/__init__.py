"""Records as Arrow record batches, from a broker or from a data directory.

What knows the formats runs in a process of its own (`pybroker.isolated`); nothing of the engine is imported here.
docs/decisions/record-readers.md
"""
