"""The data sources of pages, one set per login session: they query the broker under the user's name."""

from __future__ import annotations

from dataclasses import dataclass, field

from console.broker_log import BrokerLog
from console.cluster.client import Client
from console.logs.log_directories import LogDirectories
from console.pushing import Pushing
from console.rates import Scraper
from console.tiered_logs import TieredLogs


@dataclass(frozen=True, slots=True)
class Sources:
    """`log` has the last log lines of the broker."""

    client: Client
    logs: LogDirectories
    scraper: Scraper | None = None
    pushing: Pushing | None = None
    log: BrokerLog = field(default_factory=BrokerLog)
    tiered_logs: TieredLogs | None = None
