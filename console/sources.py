"""Where pages have what they show from: one visitor's, for whom the broker is asked under their name there."""

from __future__ import annotations

from dataclasses import dataclass, field

from console.broker_log import BrokerLog
from console.cluster.client import Client
from console.logs.log_directories import LogDirectories
from console.pushing import Pushing
from console.rates import Scraper


@dataclass(frozen=True, slots=True)
class Sources:
    """`log` is what the broker has logged lately."""

    client: Client
    logs: LogDirectories
    scraper: Scraper | None = None
    pushing: Pushing | None = None
    log: BrokerLog = field(default_factory=BrokerLog)
