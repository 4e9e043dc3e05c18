"""A message broker that speaks the Kafka wire protocol: what people run and import."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybroker.source.log_directory import read

__all__ = ["read"]


def __getattr__(name: str) -> object:
    # not before it is asked for: each command imports this package, and is to start quickly
    if name == "read":
        from pybroker.source.log_directory import read

        return read
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
