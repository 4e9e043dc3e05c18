"""Read records as Arrow record batches, from a broker or from a data directory.

The code that knows the formats runs in a process of its own (`pybroker.isolated`). This package imports no engine code.
docs/decisions/record-readers.md
"""
