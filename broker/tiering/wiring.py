"""Create the tier of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.process.start_errors import CannotStart
from broker.tiering.tier import Tier
from remote.directory_store import DirectoryStore
from remote.local_tiered_layout import LocalTieredLayout

if TYPE_CHECKING:
    from broker.tiering.services import TierServices
    from config import BrokerConfig
    from remote.layout import Layout


def make_tier(services: TierServices) -> Tier:
    """Return the tier. Raises CannotStart if the storage cannot be used as it is configured."""
    return Tier(services, _layout_of(services.config))


def _layout_of(config: BrokerConfig) -> Layout:
    prefix = config.get_str("remote.log.storage.manager.impl.prefix") or ""
    settings = {key.removeprefix(prefix): text for key, text in config.originals().items() if key.startswith(prefix)}
    if not settings.get("dir"):
        raise CannotStart(f"{prefix}dir is not set")
    return LocalTieredLayout(DirectoryStore(settings["dir"]))
