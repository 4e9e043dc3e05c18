"""Doubles of the disk: it fails at a call, forgets what was not flushed, is slow, or is full."""
