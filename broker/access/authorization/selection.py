"""Chooses whether access is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.authorizer import has_authorizer

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.metadata_cache import MetadataCache
    from config import BrokerConfig


def guard_of(config: BrokerConfig, metadata: MetadataCache) -> Guard | None:
    """Return the guard if the configuration names an authorizer, else None."""
    if not has_authorizer(config):
        return None
    from broker.access.authorization.guard import make_guard  # most brokers have no authorizer

    return make_guard(config, metadata)
