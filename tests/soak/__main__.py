"""A broker under mixed load for a long time: nothing is lost, and memory, descriptors and latency do not grow.

    python -m tests.soak [--minutes 20] [--directory .cache/soak] [--picture FILE]

It ends with code 0 if so. The clients' history is in DIRECTORY/history.jsonl, the samples are in samples.tsv and
soak.svg.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from dataclasses import astuple, fields
from pathlib import Path

from tests.soak.background import BACKGROUND, COMPACTED, EXPIRING
from tests.soak.picture import picture
from tests.soak.samples import TOPIC, Sample, Sampler, drift, judged
from tests.support.brokers import HOST, OurBroker
from tests.support.checker import check
from tests.support.data_client import DataClient
from tests.support.history import History, read_history
from tests.support.history_clients import (
    HistoryClient,
    HistoryProducer,
    PythonProducer,
    PythonReader,
    RdkafkaProducer,
    RdkafkaReader,
)
from tests.support.txn_client import TxnClient

#: Seconds between two kills. They are in the first part of a run, because each start fills its caches again; growth
#: shows in the rest.
KILL_EVERY_S = (30.0, 90.0)
KILLED_PART = 0.4
#: The minimum time of a round of the writers: the load is small and constant.
ROUND_S = 0.05
#: The growth, as a share of the value, above which a run fails. The limit for latency allows for other work of the
#: machine.
MOST_DRIFT = {"memory_mib": 0.1, "descriptors": 0.1, "median_ms": 0.5}
#: A shorter stretch is not significant.
LEAST_JUDGED_S = 240
PROPERTIES = {
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "5000",
    "log.cleaner.backoff.ms": "5000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


def soak(minutes: float, directory: Path) -> tuple[list[Sample], list[float], list[str]]:
    """Run the load. Return the samples, the seconds of the kills, and all failures."""
    broker = OurBroker(directory / "broker", PROPERTIES)
    history = History(directory / "history.jsonl")
    with DataClient(HOST, broker.port) as client:
        for topic, configs in (("compacted", COMPACTED), ("expiring", EXPIRING), (TOPIC, EXPIRING)):
            client.create_topic(topic, 1, configs)
        for topic in ("plain", "moved"):
            client.create_topic(topic, 2)
    plain, moved = [[(topic, index) for index in range(2)] for topic in ("plain", "moved")]
    producers: list[HistoryProducer] = [
        RdkafkaProducer("rd", broker.bootstrap, plain, history, least_s=ROUND_S),
        PythonProducer("py", broker.bootstrap, plain, history, least_s=ROUND_S),
        RdkafkaProducer("rd-tx", broker.bootstrap, moved, history, transactional=True, least_s=ROUND_S),
        PythonProducer("py-tx", broker.bootstrap, moved, history, transactional=True, least_s=ROUND_S),
    ]
    readers: list[HistoryClient] = [
        RdkafkaReader("rd-reader", broker.bootstrap, plain + moved, history),
        PythonReader("py-reader", broker.bootstrap, plain + moved, history),
    ]
    others = [
        make(f"other-{number}", broker.bootstrap, plain + moved, history) for number, make in enumerate(BACKGROUND)
    ]
    sampler = Sampler(broker)
    for each in (*producers, *readers, *others, sampler):
        each.start()
    try:
        kills = _killing(broker, sampler, minutes)
        for each in others:
            each.finish()
        for producer in producers:
            producer.finish()
        with TxnClient(HOST, broker.port) as transactions:
            for producer in producers:
                if producer.transactional:
                    transactions.init_with_retries(producer.name)
        for reader in readers:
            reader.finish()
        sampler.stopping.set()
        sampler.join()
        history.close()
        wrong = [str(anomaly) for anomaly in check(read_history(history.path))]
        if broker.stop():
            wrong.append("the broker did not stop in order")
        if "Traceback" in broker.output:
            wrong.append("the broker has printed a traceback")
    finally:
        broker.kill()
    print(f"{sum(each.done for each in producers)} values acknowledged, {sum(each.done for each in readers)} reads")
    return sampler.samples, kills, wrong


def _killing(broker: OurBroker, sampler: Sampler, minutes: float) -> list[float]:
    """Wait, with kills in the first part of the run. Return the seconds of the kills."""
    chance, kills = random.Random(8), []
    end = sampler.began + minutes * 60
    until = sampler.began + minutes * 60 * KILLED_PART
    while (now := time.monotonic()) < until:
        time.sleep(max(0.0, min(chance.uniform(*KILL_EVERY_S), until - now)))
        if time.monotonic() < until:
            kills.append(time.monotonic() - sampler.began)
            broker.kill()
            broker.start()
    time.sleep(max(0.0, end - time.monotonic()))
    return kills


def main() -> int:
    """Run the soak test, write its files, and print the failures."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="A broker under load, for a time.")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--directory", type=Path, default=Path(".cache/soak"))
    parser.add_argument("--picture", type=Path, help="where the picture goes (DIRECTORY/soak.svg)")
    arguments = parser.parse_args()
    directory = arguments.directory.absolute()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    samples, kills, wrong = soak(arguments.minutes, directory)
    names = [each.name for each in fields(Sample)]
    rows = ["\t".join(names), *("\t".join(f"{value:.2f}" for value in astuple(each)) for each in samples)]
    (directory / "samples.tsv").write_text("\n".join(rows) + "\n")
    drawn = arguments.picture or directory / "soak.svg"
    stretch = judged(samples, max([arguments.minutes * 60 * KILLED_PART, *kills]))
    lasted = stretch[-1].seconds - stretch[0].seconds if stretch else 0.0
    drawn.write_text(picture(samples, kills, stretch[0].seconds if stretch else None))
    for name, most in MOST_DRIFT.items():
        found = drift(stretch, name)
        print(f"{name}: {found:+.1%} in {lasted:.0f} s without kills")
        if found > most and lasted >= LEAST_JUDGED_S:
            wrong.append(f"{name} is not flat")
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(samples)} samples, {len(kills)} kills, {len(wrong)} anomalies; {drawn}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
