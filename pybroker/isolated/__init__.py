"""Readers and writers of records in a process of their own: `python -I -m pybroker.isolated`.

The only part of pybroker that imports rooms of the engine, `protocol` and `storage`; so nobody may import it but this
process and tests. What it is asked, and how: docs/decisions/record-readers.md
"""
