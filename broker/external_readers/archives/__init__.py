"""Archives of `pybroker archive` for which retention waits: how far each has come, and who is told."""
