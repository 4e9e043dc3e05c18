"""Topics into Parquet files, each record once, and back into a topic: `pybroker archive`, `pybroker restore`.

What an archive is, and what is promised: docs/reference/archive.md
"""
