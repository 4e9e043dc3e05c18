"""Logs on their way from one log directory to another."""
