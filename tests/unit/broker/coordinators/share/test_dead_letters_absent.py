"""A broker without dead-letter queues."""

import subprocess
import sys

WHAT_A_START_LOADS = """
import sys
from pybroker.engine_process import enter
enter()
import broker.lifecycle, broker.main, broker.main_process
import broker.coordinators.share.fetch_services, broker.coordinators.share.partitions
import broker.coordinators.share.requests, broker.coordinators.share.coordinator
from broker.requests.served_api import discover
for row in discover().values():
    row.load()
rooms = ("broker.coordinators.share.dead_letter", "broker.replicas.own_appends")
print([name for name in sys.modules if name.startswith(rooms)])
"""


def test_dead_letter_modules_are_loaded_on_demand():
    """Neither the start, nor a handler, nor a share group without a queue imports them."""
    command = [sys.executable, "-I", "-c", WHAT_A_START_LOADS]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
