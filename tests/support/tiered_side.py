"""One broker with tiered storage and the client of a test, which makes segments as small as it needs."""

from __future__ import annotations

from pathlib import Path

from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import batch
from tests.support.eventually import eventually
from tests.support.settled import wait_for_topic
from tests.support.tiered_brokers import remote_directory
from tests.support.tiered_client import EARLIEST_LOCAL, LATEST_TIERED, TieredClient, described_files
from tests.support.txn_client import Producer

#: The time of offset 0; each record is a second later than the one before.
TIME_MS = 1_700_000_000_000
SECOND_MS = 1000
#: A segment has ten records in five batches, and less than this.
SEGMENT_BYTES = 2000
#: Of one batch, and of a segment.
BATCH_BYTES, FULL_BYTES = 379, 1895
#: Longer than a test: no coordinator aborts a transaction that it left open.
_LONG_MS = 900_000
TIERED_TOPIC = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "index.interval.bytes": "400",
    "retention.ms": "-1",
    "local.retention.bytes": "1",
}


class Side:
    """One broker with the client of a test. `storage`: rsm.config.dir, by default `remote` beside its logs."""

    def __init__(self, broker: RunningBroker, storage: Path | None = None) -> None:
        self.broker = broker
        self.remote = remote_directory(storage or broker.directory / "remote")
        self.client = self._connected()

    def _connected(self) -> TieredClient:
        client = TieredClient(HOST, self.broker.port)
        client.is_hasty = self.broker.kind == "kafka"
        return client

    def restart(self) -> None:
        """Stop the broker and start it again; the client connects to it."""
        self.client.close()
        assert self.broker.stop() in (0, 143)
        self.broker.start()
        names = self.client
        self.client = self._connected()
        self.client.share_names(names)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        settings = TIERED_TOPIC | {key.replace("_", "."): value for key, value in configs.items()}
        self.client.create_topic(topic, partitions, settings)
        wait_for_topic(self.broker, topic, partitions)

    def write(self, topic: str, first: int, end: int, partition: int = 0) -> None:
        """Write batches of two records with the offsets from `first` to `end`."""
        for offset in range(first, end, 2):
            values = (b"%05d" % offset + b"x" * 195, b"%05d" % (offset + 1) + b"y" * 95)
            records = batch(*values, timestamp=TIME_MS + offset * SECOND_MS)
            assert self.client.produce(topic, records, partition) == offset

    def write_transactions(self, topic: str, turns: int = 14) -> None:
        """Write transactions of two producers, most of them aborted, some over several segments. One stays open."""
        client = self.client
        ids = [f"{topic}-{number}" for number in range(2)]
        names = []
        for each in ids:
            client.wait_for_coordinator(each)
            names.append(client.init_with_retries(each, timeout_ms=_LONG_MS).split()[1])
        sequences = [0, 0]
        for turn in range(turns):
            for number, (each, name) in enumerate(zip(ids, names, strict=True)):
                turns_of_one, producer = number + 2, (name, 0)
                if turn % turns_of_one == 0:
                    self._added(each, producer, topic)
                values = b"%d" % turn * 150, b"z" * 150
                written = client.write(each, producer, (topic, 0), sequences[number], *values)
                assert written.startswith("NONE"), written
                sequences[number] += len(values)
                if turn % turns_of_one == turns_of_one - 1:
                    assert client.end(each, producer, turn % 4 == 3, version=4) == "NONE"
                    client.settled(each)

    def _added(self, transactional_id: str, producer: Producer, topic: str) -> None:
        """Add the partition to a transaction, once the markers of the one before are written."""
        eventually(
            lambda: self.client.add(transactional_id, producer, (topic, 0)),
            until=lambda found: found == f"{topic}-0 NONE",
        )

    def configure(self, topic: str, **configs: str) -> str:
        """Set several configurations of a topic in one request; return the answer."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        return self.client.changed_configs(topic, settings)

    def await_tiers(self, topic: str, local: int, tiered: int, partition: int = 0) -> None:
        """Wait until the local log begins at `local`, and `tiered` is the last offset that is remote."""
        eventually(
            lambda: self.client.offsets(topic, (EARLIEST_LOCAL, LATEST_TIERED), partition),
            f"tiers of {topic}-{partition} at {self.broker.kind}",
            until=lambda found: [each.split()[0] for each in found] == [str(local), str(tiered)],
        )

    def await_start(self, topic: str, start: int) -> None:
        """Wait until the log begins at `start`."""
        eventually(lambda: self.client.bounds(topic)[0], f"start of {topic}", equal_to=start)

    def files(self, topic: str, partition: int = 0) -> dict[str, str]:
        return described_files(self.remote, topic, self.client.name, partition)
