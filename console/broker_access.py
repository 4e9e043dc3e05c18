"""The console's access to the broker for its users, according to the broker's settings."""

from __future__ import annotations

from collections.abc import Callable

from console.broker_log import BrokerLog
from console.cluster.client import Client
from console.errors import Refused
from console.login_sessions import Login, LoginSessions
from console.logs.log_directories import LogDirectories
from console.logs.readable import ReadableLogDirectories
from console.pushing import Pushing
from console.rates import Scraper
from console.settings import Settings
from console.sources import Sources
from console.tiered_logs import TieredLogs

_LONGEST = 1000


def make_login_sessions(settings: Settings, log: BrokerLog) -> LoginSessions:
    """Return one session for everybody, or sessions of the broker's users if the broker has SASL mechanisms."""
    url = settings.metrics_url
    scraper, pushing = (None, None) if url is None else (Scraper(url), Pushing(url))
    tiered_logs = None if url is None else TieredLogs(url)
    if not settings.mechanisms:
        return LoginSessions(
            Sources(Client(settings.bootstrap), LogDirectories(settings.log_dirs), scraper, pushing, log, tiered_logs)
        )

    def sources_of(client: Client) -> Sources:
        return Sources(client, ReadableLogDirectories(settings.log_dirs, client), scraper, pushing, log, tiered_logs)

    return LoginSessions(None, _login(settings, sources_of))


def _login(settings: Settings, sources_of: Callable[[Client], Sources]) -> Login:
    """Return a login that tries the broker's SASL mechanisms in order: a user may have a password in only one."""

    def enter(user: str, password: str) -> Sources:
        if not user or not password or len(user) > _LONGEST or len(password) > _LONGEST or "\0" in user + password:
            raise Refused("User or password is wrong")
        for mechanism in settings.mechanisms:
            client = Client(settings.bootstrap, _properties(settings, mechanism, user, password))
            if client.is_known():
                return sources_of(client)
        raise Refused("User or password is wrong")

    return enter


def _properties(settings: Settings, mechanism: str, user: str, password: str) -> dict[str, str]:
    found = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    if settings.ca_file is None:
        return {**found, "security.protocol": "SASL_PLAINTEXT"}
    # the certificate names the host for other machines; on loopback, its key identifies the broker
    tls = {"ssl.ca.location": settings.ca_file, "ssl.endpoint.identification.algorithm": "none"}
    return {**found, **tls, "security.protocol": "SASL_SSL"}
