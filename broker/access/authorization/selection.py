"""Whether anybody is asked who may do what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.authorizer import has_authorizer

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.metadata_cache import MetadataCache
    from config import BrokerConfig


def guard_of(config: BrokerConfig, metadata: MetadataCache) -> Guard | None:
    """Whom handlers' requests pass, where the configuration names an authorizer."""
    if not has_authorizer(config):
        return None
    from broker.access.authorization.guard import make_guard  # most brokers need none of it

    return make_guard(config, metadata)
