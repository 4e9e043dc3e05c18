"""Archive topics in Parquet files, each record once, and restore them: `pybroker archive`, `pybroker restore`.

The format of an archive and its guarantees: docs/reference/archive.md
"""
