"""A single node connects to no other node: it does not even load what members of a cluster need."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import sys
from pybroker.engine_process import enter
enter()
import broker.main, broker.lifecycle, broker.main_process
absent = "broker.network.outbound", "broker.membership", "broker.replication", "client", "config.membership"
absent += "replication", "security.sasl.c", "broker.controlling", "controller.cluster_controller", "config.controllers"
absent += "controller.broker_life", "controller.replica_index", "controller.elections", "metadata.broker_registration"
absent += "metadata.leader_moves", "metadata.alter_partition", "metadata.leader_balance"
absent += "broker.combined", "broker.startup.alone"
print([name for name in sys.modules if name.startswith(absent)])
"""


def test_start_loads_no_part_of_a_cluster() -> None:
    found = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
