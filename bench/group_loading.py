"""Load a large `__consumer_offsets` after a restart: `python -m bench group_loading [--records 1000000] [--kafka]`.

Groups commit offsets until their log has N records, with the cleaner off. Then the broker is restarted and asked for
groups until all of its partitions are loaded: first with commits of a hundred partitions, then of one, where each
record is a batch of its own. Figures are the seconds from the start of the process to its first answer and to the
first complete list of groups, and the processor time until then. `--kafka`: measure Apache Kafka, too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.compare import cpu_seconds, create
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.list_groups import LIST_GROUPS
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.schema import Struct
from tests.support.brokers import HOST, KafkaBroker, OurBroker, RunningBroker
from tests.support.eventually import eventually
from tests.support.wire import WireClient

TOPIC, PARTITIONS = "t", 100
GROUPS = 100
#: Outstanding requests.
_MAX_IN_FLIGHT = 50
_PATIENCE_S = 120


def _is_committed(answer: Struct) -> bool:
    return not answer.topics[0].partitions[0].error_code


def fill(broker: RunningBroker, records: int, partitions: int) -> None:
    """Write `records` records, by commits of `partitions` partitions each."""
    create(broker, TOPIC, PARTITIONS)
    offsets = [OffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in range(partitions)]
    with WireClient(HOST, broker.port) as client:
        frames = []
        for number in range(GROUPS):
            topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=offsets)]
            fields = {
                "group_id": f"group-{number}",
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "topics": topics,
            }
            client.call(FIND_COORDINATOR, 3, key=fields["group_id"])
            commit = partial(client.call, OFFSET_COMMIT, 8, fields)
            eventually(commit, until=_is_committed, timeout_s=_PATIENCE_S)
            frames.append(client.request_frame(OFFSET_COMMIT, 8, fields))
        count = records // partitions - GROUPS
        for number in range(count + _MAX_IN_FLIGHT):
            if number < count:
                client.socket.sendall(frames[number % GROUPS])
            if number >= _MAX_IN_FLIGHT:
                client.receive_frame()


def load(broker: RunningBroker) -> tuple[float, float, float]:
    """Return the seconds until the broker answers and until it lists all groups, and its processor time."""
    broker.stop()
    began = time.monotonic()
    broker.start()
    up_s = time.monotonic() - began
    with WireClient(HOST, broker.port) as client:
        eventually(
            partial(client.call, LIST_GROUPS, 4),
            until=lambda answer: not answer.error_code and len(answer.groups) == GROUPS,
            timeout_s=_PATIENCE_S,
            interval_s=0.01,
        )
        return up_s, time.monotonic() - began, cpu_seconds(broker.pid)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--kafka", action="store_true")
    options = parser.parse_args(argv)
    print(f"{'':8} {'a commit':>9} {'answers after s':>16} {'all groups after s':>19} {'CPU s':>6}")
    for kind in (OurBroker, KafkaBroker) if options.kafka else (OurBroker,):
        for partitions in (100, 1):
            with tempfile.TemporaryDirectory(prefix="loading-") as scratch:
                broker = kind(Path(scratch), {"log.cleaner.enable": "false"})
                try:
                    fill(broker, options.records, partitions)
                    up_s, loaded_s, cpu_s = load(broker)
                finally:
                    broker.stop()
            print(f"{kind.kind:8} {partitions:9} {up_s:16.2f} {loaded_s:19.2f} {cpu_s:6.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
