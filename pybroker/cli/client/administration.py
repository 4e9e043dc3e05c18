"""kafka-python's client, for requests that librdkafka has no functions for, such as quotas and transactions."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError as KafkaErrorCode
from kafka import KafkaAdminClient
from kafka.errors import BrokerResponseError, KafkaError, UnknownBrokerIdError
from kafka.protocol.metadata import CoordinatorType

from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.properties import for_kafka_python

if TYPE_CHECKING:
    from pybroker.cli.client.session import Session


class Administration:
    """A client with the address and properties of a session, which is connected already."""

    def __init__(self, session: Session) -> None:
        settings = for_kafka_python(session.properties)
        timeout_ms = round(session.timeout_s * 1000)
        logging.getLogger("kafka").addHandler(logging.NullHandler())  # kafka-python also raises the error that it logs
        try:
            self._client = KafkaAdminClient(**settings, request_timeout_ms=timeout_ms, bootstrap_timeout_ms=timeout_ms)
        except KafkaError as error:
            raise _failed(error) from None
        except (OSError, ValueError, AssertionError) as error:  # such as a missing file or a wrong value
            raise UsageError(str(error) or "kafka-python is against these properties") from None

    def ask(self, method: str, *arguments: object, about: str = "", **options: object) -> Any:
        """Call a method of KafkaAdminClient. Raises CommandError; `about` begins its message."""
        try:
            return getattr(self._client, method)(*arguments, **options)
        except KafkaError as error:
            raise _failed(error, about) from None

    def send(self, request: object, node: int | None = None) -> Any:
        """Send a request that no method sends, to one broker or any. Return the response. Raises CommandError."""
        connections = self._client._manager
        try:
            return connections.run(connections.send, request, node)
        except KafkaError as error:
            if isinstance(error, UnknownBrokerIdError):  # it may have come since: a later request finds it
                connections.cluster.request_update()
            raise _failed(error) from None

    def transaction_coordinator(self, transactional_id: str) -> int:
        """Return the coordinator of a transactional id. Raises CommandError."""
        return self._coordinator(transactional_id, CoordinatorType.TRANSACTION)

    def group_coordinator(self, group: str) -> int:
        """Return the coordinator of a group. Raises CommandError."""
        return self._coordinator(group, CoordinatorType.GROUP)

    def _coordinator(self, name: str, kind: CoordinatorType) -> int:
        connections = self._client._manager
        try:
            return int(connections.run(self._client._find_coordinator_id, name, kind))
        except KafkaError as error:
            raise _failed(error, name) from None

    def check(self, answer: Any, about: str = "") -> None:
        """Raise CommandError, with the broker's message, if a response or a part of it is an error."""
        if answer.error_code:
            message = getattr(answer, "error_message", None)  # some responses have no field for it
            text = message or KafkaErrorCode(answer.error_code).str().removeprefix("Broker: ")
            raise _one_line(text, about, answer.error_code)

    def close(self) -> None:
        """Hang up."""
        self._client.close()


@contextmanager
def administration(session: Session) -> Iterator[Administration]:
    """Open a client while a command runs. Raises CommandError; UsageError for unknown properties."""
    client = Administration(session)
    try:
        yield client
    finally:
        client.close()


def _failed(error: KafkaError, about: str = "") -> CommandError:
    """Return an error as one line, with the meaning of the broker's error code instead of kafka-python's text."""
    message = error.description if isinstance(error, BrokerResponseError) else " ".join(map(str, error.args))
    if not re.search("[a-z]", message, re.IGNORECASE):  # such as the number of a node to which there is no connection
        message = " ".join([type(error).__name__, message])
    return _one_line(message, about, getattr(error, "errno", None))


def _one_line(text: str, about: str, error_code: int | None) -> CommandError:
    line = " ".join(text.split()).rstrip(".")
    return CommandError(f"{about}: {line}" if about else line, error_code)
