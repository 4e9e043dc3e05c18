"""Why a process of the broker does not start."""

from __future__ import annotations


class CannotStart(Exception):
    """The broker cannot start, for the reason that the message gives in one line. Nothing of it is left open."""


class StartInterrupted(CannotStart):
    """The user ended the broker while it started."""
