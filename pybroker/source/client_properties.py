"""Properties of Kafka's clients among the options of source and sink, `kafka.*`: what does not count is refused."""

from __future__ import annotations

from collections.abc import Mapping

from pybroker.source.errors import UnusableOption

PREFIX = "kafka."

#: Those that count, for the source or for the sink: both may be given the same.
HONOURED = (
    *("bootstrap.servers", "request.timeout.ms", "isolation.level", "compression.type"),
    *("security.protocol", "sasl.mechanism", "sasl.jaas.config", "sasl.oauthbearer.token.endpoint.url"),
    *("ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type", "ssl.truststore.certificates"),
    *("ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.keystore.key"),
    *("ssl.keystore.certificate.chain", "ssl.key.password", "ssl.endpoint.identification.algorithm"),
    "ssl.ca.location",
)

_BEARER = "org.apache.kafka.common.security.oauthbearer"
#: What is done in any case. It may be asked for, and nothing else in its place.
_ALWAYS = {
    "acks": ("all", "-1"),
    "enable.idempotence": ("true",),
    # the one that reads tokens of a file
    "sasl.login.callback.handler.class": (
        f"{_BEARER}.oauthbearerlogincallbackhandler",
        f"{_BEARER}.secured.oauthbearerlogincallbackhandler",
    ),
}

#: How much Java's clients buffer and ask for, how long they wait, how often they try, what they are called: no row
#: depends on it, so these are passed over. Nothing may be in here by which one is known or trusts, or finds records.
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
    """The properties that count, by their names without `kafka.`; options have theirs in lower case.

    Errors: UnusableOption for a property that would not count, and without bootstrap.servers.
    """
    properties = {}
    for option, value in options.items():
        name = option.removeprefix(PREFIX)
        if name == option or name in _TUNING:
            continue
        if name in _ALWAYS:
            if value.lower() not in _ALWAYS[name]:
                raise UnusableOption(f"{option}: {value!r} is not served, only {_ALWAYS[name][0]}")
        elif name in HONOURED:
            properties[name] = value
        else:  # without its value, which may be a password
            raise UnusableOption(f"there is no option {option!r}: of {PREFIX}* there are {', '.join(HONOURED)}")
    if not properties.get("bootstrap.servers"):
        raise UnusableOption("kafka.bootstrap.servers is not set: host:port, or several with commas between them")
    return properties
