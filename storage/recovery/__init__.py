"""From a directory to a log."""
