"""Commands with which a test controls its own broker (`--ephemeral --control`): clock, faults, background work.

Without `--control` none of this is imported, and requests do not pass through it.
"""
