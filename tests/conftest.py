"""No clock for properties; of modules that are compiled, the source and not its twin."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from zlib import crc32

from hypothesis import HealthCheck, settings

# How long an example takes, or the making of one, is for a busy machine to say
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# Twins run the same tests (property/test_compiled_modules.py); in processes that tests start they are what users get
if "PYBROKER_TEST_COMPILED" not in os.environ:
    for _source in (Path("storage/cleaner/walk.py"), Path("protocol/records/fields.py")):
        _name = ".".join(_source.with_suffix("").parts)
        _sum = crc32((Path(__file__).parents[1] / _source).read_bytes())
        sys.modules[f"{_name}_{_sum:08x}"] = None  # type: ignore[assignment]
