"""A process loads only what it needs: a single node no part of a cluster, a member neither TLS nor SASL unasked."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import sys
from pybroker.engine_process import enter
enter()
import broker.main, broker.lifecycle, broker.main_process
absent = "broker.network.outbound", "broker.membership", "broker.replication", "client", "config.membership"
absent += "replication", "security.sasl.c", "broker.controlling", "controller.cluster_controller", "config.controllers"
absent += "controller.broker_life", "controller.replica_index", "controller.elections", "metadata.broker_registration"
absent += "metadata.leader_moves", "metadata.alter_partition", "metadata.leader_balance"
absent += "broker.combined", "broker.startup.alone", "broker.tiering", "remote", "tiered"
print([name for name in sys.modules if name.startswith(absent)])
"""


_MEMBER_SCRIPT = """
import sys
from pybroker.engine_process import enter
enter()
import broker.membership.process, broker.combined.process
absent = "config.tls_context", "config.sasl", "security.jaas", "security.java_keystore", "security.key_stores"
absent += "security.sasl.c", "security.sasl.login", "security.sasl.oauthbearer", "broker.network.outbound_login"
print([name for name in sys.modules if name.startswith(absent)])
"""


@pytest.mark.parametrize("script", [_SCRIPT, _MEMBER_SCRIPT], ids=["node", "member"])
def test_start_loads_only_what_it_needs(script: str) -> None:
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
