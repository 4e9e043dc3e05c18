"""`pybroker verify-replicas`: compare the replicas of partitions batch by batch, as kafka-replica-verification does."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.replica_batches import compare
from pybroker.cli.option_values import natural, positive

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration
    from pybroker.cli.client.session import FoundOffsets, Place, Session

_EXAMPLES = """\
examples:
  pybroker verify-replicas
  pybroker verify-replicas --topics-include 'orders.*'
  pybroker verify-replicas --watch --from-end"""
#: The replica of a Fetch that may read from followers, too, and beyond the high watermark.
_ANY_REPLICA = -2
#: The last version of Fetch in which topics have names.
_VERSION = 12
_PAUSE_S = 0.1


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker verify-replicas", "Compare the replicas of partitions.", _EXAMPLES)
    parser.add_argument("--topics-include", type=re.compile, default=re.compile(".*"), metavar="REGEX", help="(.*)")
    parser.add_argument("--from-end", action="store_true", help="compare only what is written from now on")
    parser.add_argument("--watch", action="store_true", help="go on until Ctrl-C; otherwise up to the ends of now")
    parser.add_argument(
        "--fetch-size", type=positive, default=1 << 20, metavar="BYTES", help="of a partition (1048576)"
    )
    parser.add_argument("--max-wait-ms", type=natural, default=1000, metavar="MS", help="of a fetch (1000)")
    parser.add_argument("--report-interval-ms", type=natural, default=30_000, metavar="MS", help="(30000)")
    parser.add_client_options()
    parser.set_defaults(run=_verify)
    return parser


def _verify(session: Session, options: argparse.Namespace) -> None:
    replicas = _replicas(session, options.topics_include)
    if not replicas:
        raise CommandError("no topic has such a name that the user is authorized to describe")
    begins = _offsets(session, session.found_ends if options.from_end else session.found_starts, replicas)
    wanted = None if options.watch else _offsets(session, session.found_ends, replicas)
    with session.administration() as client:
        verification = _Verification(client, options, replicas, begins)
        verification.run(wanted, session.timeout_s)
    if verification.differences:
        raise CommandError(f"{verification.differences} differences between replicas")


def _replicas(session: Session, included: re.Pattern[str]) -> dict[Place, list[int]]:
    """Return the brokers that have a replica of each partition."""
    topics = session.admin.list_topics(timeout=session.timeout_s).topics
    return {
        (name, index): list(partition.replicas)
        for name, topic in sorted(topics.items())
        if included.fullmatch(name)
        for index, partition in sorted(topic.partitions.items())
    }


def _offsets(
    session: Session, look_up: Callable[[Iterable[Place]], FoundOffsets], places: Iterable[Place]
) -> dict[Place, int]:
    """Return an offset of each partition; wait for those whose leader changes. Raises CommandError."""
    deadline = time.monotonic() + session.timeout_s
    while True:
        found = look_up(places)
        if not found.errors:
            return found.offsets
        error = next((each for each in found.errors.values() if not _leader_changes(each)), None)
        if error is not None or time.monotonic() > deadline:
            raise error or next(iter(found.errors.values()))
        time.sleep(_PAUSE_S)


def _leader_changes(error: CommandError) -> bool:
    """Return whether the partition of this error changes its leader."""
    from confluent_kafka import KafkaError

    return error.error_code in (
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    )


class _Verification:
    """The offsets up to which replicas are compared."""

    def __init__(
        self,
        client: Administration,
        options: argparse.Namespace,
        replicas: Mapping[Place, list[int]],
        begins: Mapping[Place, int],
    ) -> None:
        self.differences = 0
        self._client = client
        self._options = options
        self._replicas = replicas
        self._offsets = dict(begins)
        self._high_watermarks: dict[Place, int] = {}
        self._trouble = ""

    def run(self, wanted: Mapping[Place, int] | None, timeout_s: float) -> None:
        """Compare up to the wanted offsets, or for ever. Raises CommandError if a replica makes no progress."""
        self._print("verification process is started.", None)
        reported = moved = time.monotonic()
        while True:
            if self._round():
                moved = time.monotonic()
            behind = None if wanted is None else [each for each, end in wanted.items() if self._offsets[each] < end]
            if behind == [] or time.monotonic() - reported > self._options.report_interval_ms / 1000:
                self._report()
                reported = time.monotonic()
            if behind == []:
                return
            if behind and time.monotonic() - moved > timeout_s:
                (topic, index), count = behind[0], len(behind)
                at = f"{topic}-{index} at offset {self._offsets[behind[0]]}"
                raise CommandError(f"{count} partitions are not compared: {at}: {self._trouble or 'replicas lag'}")

    def _round(self) -> bool:
        """Fetch once from each broker, and compare. Return whether any offset has moved."""
        answers: dict[Place, dict[int, Any]] = {each: {} for each in self._replicas}
        for broker_id in sorted({each for replicas in self._replicas.values() for each in replicas}):
            for place, found in self._fetch(broker_id):
                answers[place][broker_id] = found
        moved = False
        for place, found in answers.items():
            if len(found) == len(self._replicas[place]):
                moved = self._compare(place, found) or moved
        if not moved:
            time.sleep(_PAUSE_S)
        return moved

    def _fetch(self, broker_id: int) -> Iterator[tuple[Place, Any]]:
        """Yield the answers of a broker, without errors."""
        from kafka.protocol.consumer import FetchRequest

        topics: dict[str, list[Any]] = {}
        for (topic, index), replicas in self._replicas.items():
            if broker_id in replicas:
                asked = FetchRequest.FetchTopic.FetchPartition(
                    partition=index,
                    fetch_offset=self._offsets[topic, index],
                    log_start_offset=-1,
                    current_leader_epoch=-1,
                    last_fetched_epoch=-1,
                    partition_max_bytes=self._options.fetch_size,
                )
                topics.setdefault(topic, []).append(asked)
        request = FetchRequest(
            replica_id=_ANY_REPLICA,
            max_wait_ms=self._options.max_wait_ms if self._options.watch else 0,
            min_bytes=1,
            max_bytes=(1 << 31) - 1,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=name, partitions=asked) for name, asked in topics.items()],
            forgotten_topics_data=[],
            rack_id="",
            max_version=_VERSION,
        )
        try:
            answer = self._client.send(request, broker_id)
        except CommandError as error:  # it may start just now: `run` bounds how long nothing moves
            self._trouble = f"broker {broker_id} does not answer: {error}"
            return
        for topic in answer.responses:
            for each in topic.partitions:
                place = topic.topic, each.partition_index
                if each.error_code:
                    self._trouble = f"broker {broker_id} returns the error code {each.error_code}"
                else:
                    yield place, each

    def _compare(self, place: Place, found: Mapping[int, Any]) -> bool:
        """Compare the answers of all replicas of a partition, and print differences."""
        topic, index = place
        records = {broker_id: bytes(each.records or b"") for broker_id, each in found.items()}
        high_watermarks = {broker_id: each.high_watermark for broker_id, each in found.items()}
        before = self._offsets[place]
        self._high_watermarks[place] = max(high_watermarks.values())
        self._offsets[place], differences = compare(records, high_watermarks, before)
        self.differences += len(differences)
        for each in differences:
            offsets, checksums = zip(*each.batches, strict=True)
            row = {"topic": topic, "partition": index, "replicas": each.replicas, "offsets": offsets}
            self._print(each.text(f"{topic}-{index}"), {**row, "checksums": checksums})
            if each.in_offsets:
                raise CommandError(f"{topic}-{index}: replicas have different batches")
        return self._offsets[place] > before

    def _report(self) -> None:
        """Print the partition that is the furthest behind."""
        lags = {place: self._high_watermarks.get(place, at) - at for place, at in self._offsets.items()}
        topic, index = place = max(lags, key=lags.__getitem__)
        lag, offset = lags[place], self._offsets[place]
        self._print(
            f"max lag is {lag} for partition {topic}-{index} at offset {offset} among {len(lags)} partitions",
            {"topic": topic, "partition": index, "max_lag": lag, "offset": offset, "partitions": len(lags)},
        )

    def _print(self, text: str, row: Mapping[str, object] | None) -> None:
        """Print a line of kafka-replica-verification, or with --json what it says."""
        if self._options.json:
            if row is not None:
                print(json.dumps(row), flush=True)
            return
        now = datetime.now()
        print(f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}: {text}", flush=True)
