"""Measure how a cleaner slows down producers: `python -m bench.compaction_latency [MEGABYTES]`.

One connection sends batches of 1 kB, one at a time, to its own topic: first while the broker is otherwise idle, then
while it cleans a log of MEGABYTES. Prints p50 and p99 of the response times, in ms.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.compaction import SHAPES, T0, fill
from storage.log.directory import LogDirectory
from storage.log.stored_log import StoredLog
from storage.log_config import LogConfig
from storage.recovery.loading import load_log
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, batch

MEGABYTES = 200
IDLE_S = 4.0
PAUSE_S = 0.002


def fill_topic(broker: OurBroker, topic: str, size_bytes: int) -> None:
    """Fill a topic while the broker is stopped."""
    directory = LogDirectory(str(broker.log_dir))
    config = LogConfig(segment_bytes=64 << 20)
    log = load_log(directory, StoredLog(f"{broker.log_dir}/{topic}-0", topic, 0, config, T0, clean=True))
    fill(log, SHAPES[0], size_bytes)
    log.recovery_point = log.log_end_offset
    log.close()


def is_clean(broker: OurBroker, topic: str) -> bool:
    path = broker.log_dir / "cleaner-offset-checkpoint"
    return path.exists() and f"{topic} 0 " in path.read_text()


def measure(client: DataClient, keep_going: Callable[[], bool]) -> list[float]:
    """Return the response times in s, sorted; stop when `keep_going()` is false."""
    records = batch(bytes(900))
    times = []
    while keep_going():
        begun = time.perf_counter()
        client.produce("latency", records)
        times.append(time.perf_counter() - begun)
        time.sleep(PAUSE_S)
    return sorted(times)


def report(name: str, times: list[float]) -> None:
    p50, p99 = (times[int(len(times) * share)] * 1e3 for share in (0.5, 0.99))
    print(f"{name:12} p50 {p50:6.2f} ms, p99 {p99:6.2f} ms, of {len(times)}")


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES
    root = Path(tempfile.mkdtemp(prefix="bench-"))
    settings = {"log.cleaner.backoff.ms": "100", "log.retention.ms": "-1"}
    broker = OurBroker(root, settings)
    try:
        with DataClient(HOST, broker.port) as client:
            client.create_topic("latency")
            configs = {"cleanup.policy": "compact", "segment.bytes": 64 << 20, "min.cleanable.dirty.ratio": 1.0}
            client.create_topic("cleaned", 1, configs)
        broker.stop()
        fill_topic(broker, "cleaned", megabytes << 20)
        broker.start()
        with DataClient(HOST, broker.port) as client:
            until = time.monotonic() + IDLE_S
            report("idle", measure(client, lambda: time.monotonic() < until))
            client.set_topic_config("cleaned", "min.cleanable.dirty.ratio", "0.1")
            report("cleaning", measure(client, lambda: not is_clean(broker, "cleaned")))
            until = time.monotonic() + IDLE_S
            report("idle again", measure(client, lambda: time.monotonic() < until))
    finally:
        broker.stop()
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
