"""Client properties from `-X KEY=VALUE` and files, by the names of librdkafka or Java clients, and of kafka-python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pybroker.cli.client.errors import UsageError
from pybroker.java_properties import UnreadableProperties, parse_properties
from pybroker.text_files import file_bytes

_CREDENTIAL = re.compile(r'\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))')

#: Keys of Java clients, and librdkafka's names for them.
_OTHER_NAMES = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
#: Keys of Java clients without effect here: librdkafka detects the types of stores, commands have options of their own,
#: and memory and threads of a JVM do not exist.
_PASSED_OVER = {
    "ssl.truststore.type",
    "ssl.keystore.type",
    "ssl.truststore.password",
    "default.api.timeout.ms",
    "buffer.memory",
    "key.deserializer",
    "key.serializer",
    "max.block.ms",
    "max.poll.records",
    "value.deserializer",
    "value.serializer",
}
#: librdkafka's names, and kafka-python's.
_IN_KAFKA_PYTHON = {
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.password": "sasl_plain_password",
    "sasl.username": "sasl_plain_username",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.crl.location": "ssl_crlfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}


def read_properties(path: Path) -> dict[str, str]:
    """Return the entries of a file in Java's .properties syntax. Raises UsageError."""
    try:
        entries = parse_properties(file_bytes(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UnreadableProperties as error:
        raise UsageError(f"{path}:{error.line}: {error.reason}: {error.allowed}") from None
    for entry in entries:
        if not entry.key.strip():
            raise UsageError(f"{path}:{entry.line}: {entry.value!r} is not KEY=VALUE")
    return {entry.key.strip(): entry.value.strip() for entry in entries}  # as Java's clients do


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties by librdkafka's names. Raises UsageError for properties that need a JVM."""
    found = {}
    for key, value in properties.items():
        if key == "sasl.jaas.config":
            found.update(_credentials(value))
        elif key in ("ssl.truststore.type", "ssl.keystore.type") and value.upper() == "JKS":
            raise UsageError(f"{key}=JKS: a Java key store can not be read here; give one in PEM or PKCS12")
        elif key == "ssl.endpoint.identification.algorithm":
            found[key] = value or "none"
        elif key not in _PASSED_OVER:
            if key.endswith(".location") and Path(value).is_fifo():
                raise UsageError(f"{key}: {value} is a pipe, not a file")  # the client libraries wait for a writer
            found[_OTHER_NAMES.get(key, key)] = value
    return found


def for_kafka_python(properties: Mapping[str, Any]) -> dict[str, object]:
    """Return librdkafka's properties by kafka-python's names, without those that only tune a client.

    Raises UsageError for a property of TLS or SASL that kafka-python does not have.
    """
    found: dict[str, object] = {}
    for key, value in properties.items():
        if key == "security.protocol":
            found["security_protocol"] = value.upper()
        elif key == "ssl.endpoint.identification.algorithm":
            found["ssl_check_hostname"] = value != "none"
        elif key in _IN_KAFKA_PYTHON:
            found[_IN_KAFKA_PYTHON[key]] = value
        elif key.startswith(("sasl.", "ssl.")):
            raise UsageError(f"{key}: this command's client, kafka-python, has no such property")
    return found


def _credentials(jaas: str) -> dict[str, str]:
    """Return user and password of `...LoginModule required username="a" password="b";`."""
    found = {match[1]: re.sub(r"\\(.)", r"\1", match[2] or match[3] or "") for match in _CREDENTIAL.finditer(jaas)}
    if found.keys() != {"username", "password"}:
        raise UsageError("sasl.jaas.config: there is no username and password in it")
    return {f"sasl.{name}": value for name, value in found.items()}
