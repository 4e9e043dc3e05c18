"""The services that authentication uses."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from broker.access.authentication.delegation_tokens import DelegationTokens
    from broker.metadata_cache import MetadataCache
    from broker.requests.dispatcher import Dispatcher
    from config import BrokerConfig
    from runtime.clock import Clock
    from runtime.thread_pool import ThreadPool
    from runtime.timers import Timers


class AuthenticationServices(msgspec.Struct, frozen=True, kw_only=True):
    """Services that an authenticating listener needs. `handshakes` are threads for steps of TLS handshakes."""

    config: BrokerConfig
    loop: AbstractEventLoop
    clock: Clock
    timers: Timers
    offload: ThreadPool
    handshakes: ThreadPool
    dispatcher: Dispatcher
    metadata: MetadataCache
    delegation_tokens: DelegationTokens
