"""Read and write records in a separate process: `python -I -m pybroker.isolated`.

This is the only part of pybroker that imports the engine (`protocol`, `storage`, `security`), so only this process and
tests may import it. docs/decisions/record-readers.md describes its requests.
"""
