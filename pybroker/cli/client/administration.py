"""kafka-python's client, for what librdkafka has no functions for: quotas, and what becomes of transactions."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError as KafkaErrorCode
from kafka import KafkaAdminClient
from kafka.errors import BrokerResponseError, KafkaError
from kafka.protocol.metadata import CoordinatorType

from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.properties import for_kafka_python

if TYPE_CHECKING:
    from pybroker.cli.client.session import Session


class Administration:
    """A client of a session's cluster, with the same properties. The session has shown that there is a way to it."""

    def __init__(self, session: Session) -> None:
        settings = for_kafka_python(session.properties)
        timeout_ms = round(session.timeout_s * 1000)
        logging.getLogger("kafka").addHandler(logging.NullHandler())  # what is wrong is raised, too
        try:
            self._client = KafkaAdminClient(**settings, request_timeout_ms=timeout_ms, bootstrap_timeout_ms=timeout_ms)
        except KafkaError as error:
            raise _failed(error) from None
        except (OSError, ValueError, AssertionError) as error:  # a file that is not there, a value that is none
            raise UsageError(str(error) or "kafka-python is against these properties") from None

    def ask(self, method: str, *arguments: object, about: str = "", **options: object) -> Any:
        """Call a method of KafkaAdminClient. Raises CommandError, with what it is about."""
        try:
            return getattr(self._client, method)(*arguments, **options)
        except KafkaError as error:
            raise _failed(error, about) from None

    def send(self, request: object, node: int | None = None) -> Any:
        """The answer of a broker, any one unless it is said, to a request that no method makes. Raises CommandError."""
        connections = self._client._manager
        try:
            return connections.run(connections.send, request, node)
        except KafkaError as error:
            raise _failed(error) from None

    def transaction_coordinator(self, transactional_id: str) -> int:
        """The broker that is asked about a transactional id. Raises CommandError."""
        connections = self._client._manager
        try:
            found = connections.run(self._client._find_coordinator_id, transactional_id, CoordinatorType.TRANSACTION)
        except KafkaError as error:
            raise _failed(error, transactional_id) from None
        return int(found)

    def check(self, answer: Any, about: str = "") -> None:
        """Raise CommandError, in the broker's words, where an answer, or a part of one, is an error."""
        if answer.error_code:
            told = getattr(answer, "error_message", None)  # some answers have no room for it
            text = told or KafkaErrorCode(answer.error_code).str().removeprefix("Broker: ")
            raise _one_line(text, about, answer.error_code)

    def close(self) -> None:
        """Hang up."""
        self._client.close()


@contextmanager
def administration(session: Session) -> Iterator[Administration]:
    """A client for as long as a command runs. Raises CommandError, and UsageError for properties it does not know."""
    client = Administration(session)
    try:
        yield client
    finally:
        client.close()


def _failed(error: KafkaError, about: str = "") -> CommandError:
    """What is wrong, in one line. What a broker's error code means says more than what kafka-python adds to it."""
    told = error.description if isinstance(error, BrokerResponseError) else " ".join(map(str, error.args))
    return _one_line(told or type(error).__name__, about, getattr(error, "errno", None))


def _one_line(text: str, about: str, error_code: int | None) -> CommandError:
    line = " ".join(text.split()).rstrip(".")
    return CommandError(f"{about}: {line}" if about else line, error_code)
