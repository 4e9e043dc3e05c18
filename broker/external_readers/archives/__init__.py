"""Archives of `pybroker archive` that retention waits for: how far each has read, and the log lines about them."""
