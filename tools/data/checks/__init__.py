"""Whether the files of a log directory are what was written, and agree; what is done about it where they do not."""
