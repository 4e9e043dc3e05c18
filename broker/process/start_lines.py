"""Log lines of a start in Apache Kafka's own words, which programs that start a broker wait for.

| line | who waits for it |
|---|---|
| `Transitioning from RECOVERY to RUNNING` | Testcontainers' Kafka modules for Java, Go and .NET |
| `[KafkaRaftServer nodeId=N] Kafka Server started` | kafka-python's tests; Testcontainers for Python and Rust |
| `[KafkaServer id=N] started` | all of them, if they assume ZooKeeper mode |
| `Replayed UserScramCredentialRecord ...` | kafka-python's tests with SCRAM |
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from runtime.log_text import log_text

#: Kafka logs all users at each start. Beyond this number hardly any program waits for one of them.
_MOST_USERS = 10


def start_lines(node_id: int, scram_users: Collection[str]) -> Iterator[str]:
    """Yield the lines, in Kafka's order. They are logged once the broker accepts clients."""
    for user in sorted(scram_users)[:_MOST_USERS]:
        yield f"Replayed UserScramCredentialRecord creating new entry for {log_text(user)}"
    yield (
        f"[BrokerLifecycleManager id={node_id}] The broker has been unfenced. Transitioning from RECOVERY to RUNNING."
    )
    yield f"[KafkaRaftServer nodeId={node_id}] Kafka Server started"
    yield f"[KafkaServer id={node_id}] started"
