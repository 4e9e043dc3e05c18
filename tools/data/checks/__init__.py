"""Check that the files of a log directory are intact and agree with each other, and repair them if they do not."""
