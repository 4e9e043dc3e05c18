"""Create the tier of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.process.start_errors import CannotStart
from broker.tiering.threads import TierThreads
from broker.tiering.tier import Tier
from config.tiering import located, storage_settings
from remote.configured import layout_of
from remote.errors import SettingError

if TYPE_CHECKING:
    from broker.tiering.services import TierServices
    from config import BrokerConfig
    from remote.layout import Layout


def make_tier(services: TierServices) -> Tier:
    """Return the tier. Raises CannotStart if the storage cannot be used as it is configured."""
    try:
        layout = configured_layout(services.config)
    except SettingError as error:
        raise CannotStart(str(located(services.config, error))) from None
    return Tier(services, layout, TierThreads(services.config, services.loop))


def configured_layout(config: BrokerConfig) -> Layout:
    """Return the layout that the keys of the storage class describe. Raises SettingError."""
    return layout_of(*storage_settings(config))
