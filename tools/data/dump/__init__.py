"""Dump the files of a log directory, as values and as lines of text or JSON."""
