"""The APIs of a controller, and what serves them."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

from broker.access.authorization.rules import RULES
from broker.controlling.apis import controller_apis
from broker.requests.forwardable import FORWARDABLE
from protocol.api_keys import ApiKey

FACTS = Path(__file__).parents[3] / "data" / "facts"
#: Newer than the facts of Kafka 4.3: ApiVersions v5 (KIP-1242), UnregisterController (KIP-1312).
_OF_4_4 = {ApiKey.API_VERSIONS: (0, 5), ApiKey.UNREGISTER_CONTROLLER: (0, 0)}

_SCRIPT = """
import sys
from pybroker.engine_process import enter
enter()
import broker.main, broker.lifecycle, broker.controlling.process
from broker.controlling.apis import controller_apis
for each in controller_apis().values():
    each.load()
absent = "broker.coordinators", "broker.replicas", "broker.replication", "broker.membership", "broker.maintenance"
absent += "broker.main_process", "coordinator.transaction", "replication"
print([name for name in sys.modules if name.startswith(absent)])
"""


def test_versions_are_those_of_apache_kafkas_controller() -> None:
    with (FACTS / "api-versions.tsv").open(encoding="utf-8", newline="") as file:
        facts = list(csv.DictReader(file, delimiter="\t"))
    theirs = {
        int(fact["api_key"]): (int(fact["controller_min"]), int(fact["controller_max"]))
        for fact in facts
        if fact["controller_max"]
    }
    ours = {key: (each.advertised.min, each.advertised.max) for key, each in controller_apis().items()}
    assert ours == theirs | _OF_4_4


def test_each_api_has_a_handler_and_a_rule() -> None:
    for key, each in controller_apis().items():
        assert each.load().api.key == key
        assert ApiKey(key) in RULES


def test_all_that_brokers_forward_is_served() -> None:
    assert set(controller_apis()) >= FORWARDABLE


def test_a_controller_loads_no_part_of_a_broker() -> None:
    """Neither partitions nor coordinators, also not with all of its handlers."""
    found = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
