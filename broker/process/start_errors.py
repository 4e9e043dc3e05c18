"""The errors of a process of the broker that does not start."""

from __future__ import annotations


class CannotStart(Exception):
    """The broker cannot start; the message gives the reason in one line. Nothing is left open."""


class StartInterrupted(CannotStart):
    """The user ended the broker while it started."""
