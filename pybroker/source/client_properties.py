"""Client properties among the options of source and sink, `kafka.*`. A property without effect is rejected."""

from __future__ import annotations

from collections.abc import Mapping

from pybroker.source.errors import UnusableOption

PREFIX = "kafka."

#: Properties that have an effect, on the source or on the sink. Both accept all of them.
HONOURED = (
    *("bootstrap.servers", "request.timeout.ms", "isolation.level", "compression.type"),
    *("security.protocol", "sasl.mechanism", "sasl.jaas.config", "sasl.oauthbearer.token.endpoint.url"),
    *("ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type", "ssl.truststore.certificates"),
    *("ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.keystore.key"),
    *("ssl.keystore.certificate.chain", "ssl.key.password", "ssl.endpoint.identification.algorithm"),
    "ssl.ca.location",
)

_BEARER = "org.apache.kafka.common.security.oauthbearer"
#: Settings that always hold. A user may ask for this value, and for no other one.
_ALWAYS = {
    "acks": ("all", "-1"),
    "enable.idempotence": ("true",),
    # the handler that reads tokens from a file
    "sasl.login.callback.handler.class": (
        f"{_BEARER}.oauthbearerlogincallbackhandler",
        f"{_BEARER}.secured.oauthbearerlogincallbackhandler",
    ),
}

#: Properties that are ignored: buffer and fetch sizes, timeouts, retries and names of Java's clients. No row depends on
#: them. Properties of authentication, trust or the choice of records must not be added here.
_TUNING = frozenset(
    (
        *("batch.size", "buffer.memory", "linger.ms", "max.block.ms", "max.request.size"),
        *("compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
        *("connections.max.idle.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms"),
        *("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"),
        *("default.api.timeout.ms", "delivery.timeout.ms", "metadata.max.age.ms", "metadata.max.idle.ms"),
        *("fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes"),
        *("heartbeat.interval.ms", "session.timeout.ms", "max.poll.interval.ms", "max.poll.records"),
        *("max.in.flight.requests.per.connection", "retries", "retry.backoff.ms", "retry.backoff.max.ms"),
        *("receive.buffer.bytes", "send.buffer.bytes", "client.id"),
    )
)


def read_client_properties(options: Mapping[str, str]) -> dict[str, str]:
    """Return the effective properties by their names without `kafka.`. The names of `options` are in lower case.

    Errors: UnusableOption for a property without effect, and when bootstrap.servers is missing.
    """
    properties = {}
    for option, value in options.items():
        name = option.removeprefix(PREFIX)
        if name == option or name in _TUNING:
            continue
        if name in _ALWAYS:
            if value.lower() not in _ALWAYS[name]:
                raise UnusableOption(f"{option}: {value!r} is not supported, only {_ALWAYS[name][0]}")
        elif name in HONOURED:
            properties[name] = value
        else:  # without its value, which may be a password
            raise UnusableOption(f"there is no option {option!r}: the {PREFIX}* options are {', '.join(HONOURED)}")
    if not properties.get("bootstrap.servers"):
        raise UnusableOption("kafka.bootstrap.servers is not set: host:port, or several, separated by commas")
    return properties
