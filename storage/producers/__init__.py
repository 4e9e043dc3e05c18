"""What a log knows of its producers."""
