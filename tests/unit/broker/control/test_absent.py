"""A broker that nobody commands."""

import subprocess
import sys

WHAT_A_START_LOADS = """
import sys
from pybroker.engine_process import enter
enter()
import broker.lifecycle, broker.main
from broker.requests.served_api import discover
for row in discover().values():
    row.load()
print([name for name in sys.modules if name.split(".")[:2] == ["broker", "control"]])
"""


def test_nothing_of_it_is_loaded_unless_it_is_asked_for():
    """Neither at the start nor by any handler."""
    command = [sys.executable, "-I", "-c", WHAT_A_START_LOADS]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
