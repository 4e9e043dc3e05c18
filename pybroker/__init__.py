"""A message broker that speaks the Kafka wire protocol: what people run and import."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybroker.source.log_directory import read

__all__ = ["read"]


def __getattr__(name: str) -> object:
    # imported at first use: each command imports this package and must start quickly
    if name == "read":
        from pybroker.source.log_directory import read

        return read
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
