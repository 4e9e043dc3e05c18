"""Both brokers at the feature levels of Apache Kafka 4.4; new directories have those of 4.3."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.brokers import CLUSTER_ID, KafkaBroker, OurBroker, RunningBroker
from tests.support.java import KAFKA_LINE
from tools.data.format import main as format_command

RELEASE = "4.4"


class KafkaAt44(KafkaBroker):
    """Apache Kafka, at the feature levels of 4.4."""

    _format_options = ("--release-version", RELEASE)


class OursAt44(OurBroker):
    """pybroker, at the feature levels of 4.4."""

    def _command(self, config: Path) -> list[str]:
        if not self.log_dir.exists():
            assert format_command(["-c", str(config), "-t", CLUSTER_ID, "-r", RELEASE]) == 0
        return super()._command(config)


BROKERS_OF_4_4: dict[str, type[RunningBroker]] = {"ours": OursAt44, "kafka": KafkaAt44}
#: For tests of what Apache Kafka has from 4.4 on.
needs_4_4 = pytest.mark.skipif(KAFKA_LINE < (4, 4), reason="earlier releases of Apache Kafka do not have this")
