"""A broker without a control channel."""

import subprocess
import sys

WHAT_A_START_LOADS = """
import sys
from pybroker.engine_process import enter
enter()
import broker.lifecycle, broker.main, broker.main_process
from broker.requests.served_api import discover
for row in discover().values():
    row.load()
print([name for name in sys.modules if name.split(".")[:2] == ["broker", "control"]])
"""


def test_control_modules_are_loaded_on_demand():
    """Neither the start nor a handler imports them."""
    command = [sys.executable, "-I", "-c", WHAT_A_START_LOADS]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
