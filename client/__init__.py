"""The blocking client. README.md describes it."""
