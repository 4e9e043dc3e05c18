"""No clock for properties; of the cleaner, the source and not its compiled twin."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from zlib import crc32

from hypothesis import HealthCheck, settings

# How long an example takes, or the making of one, is for a busy machine to say
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# The twin runs the same tests (property/test_compiled_cleaner.py), and in brokers that tests start it is what users get
if "PYBROKER_TEST_COMPILED" not in os.environ:
    _SOURCE = Path(__file__).parents[1] / "storage/cleaner/walk.py"
    sys.modules[f"storage.cleaner.walk_{crc32(_SOURCE.read_bytes()):08x}"] = None  # type: ignore[assignment]
