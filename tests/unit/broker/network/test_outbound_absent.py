"""A single node connects to no other broker: it does not even load the client for that."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import sys
from pybroker.engine_process import enter
enter()
import broker.main, broker.lifecycle, broker.workers.supervisor
print([name for name in sys.modules if name.startswith(("broker.network.outbound", "client", "security.sasl.client"))])
"""


def test_start_loads_no_outbound_client() -> None:
    found = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
