"""What is in the files of a log directory, as values and as lines."""
