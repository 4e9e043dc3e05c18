"""Record Apache Kafka's reaction to each case."""

from __future__ import annotations

import tempfile
from itertools import chain
from pathlib import Path

from tests.conformance.bad_frames import RECORDED, bad_frames, inconsistent_batches, prepare
from tests.conformance.bad_frames.probe import outcome
from tests.support.brokers import KafkaBroker

with tempfile.TemporaryDirectory() as directory:
    broker = KafkaBroker(Path(directory))
    try:
        prepare(broker)
        lines = [
            f"{name}\t{outcome(broker.port, data)}\n" for name, data in chain(bad_frames(), inconsistent_batches())
        ]
    finally:
        broker.stop()
RECORDED.write_text("case\toutcome\n" + "".join(lines), encoding="utf-8")
