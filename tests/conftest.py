"""Set up a test run: its order, what runs against Apache Kafka, properties without deadlines, modules as source."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from tests.support.proofs import EACH_TIME, Proofs, digest, kafka_asked
from tests.support.quick_java import use_quick_java
from tests.support.recorded_answers import RecordedAnswers
from tests.support.run_order import SlowestFirst, file_of
from tests.support.scale import SCALE

#: A test with this mark runs only with PYBROKER_TEST_SCALE above 1.
FULL_SIZE = "full_size"

# How long an example takes, or the making of one, is for a busy machine to say
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# Twins run the same tests (property/test_compiled_modules.py); in processes that tests start they are what users get
if "PYBROKER_TEST_COMPILED" not in os.environ:
    for _source in (Path("storage/cleaner/walk.py"), Path("protocol/records/fields.py")):
        _name = ".".join(_source.with_suffix("").parts)
        _sum = crc32((Path(__file__).parents[1] / _source).read_bytes())
        sys.modules[f"{_name}_{_sum:08x}"] = None  # type: ignore[assignment]


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugins that choose and order the tests."""
    config.addinivalue_line("markers", f"{EACH_TIME}: the test runs against Apache Kafka in every run")
    config.addinivalue_line("markers", f"{FULL_SIZE}: it starts too many brokers or Spark drivers for small sizes")
    config.addinivalue_line("markers", "broker(class, *arguments): the broker of the fixture `broker`")
    config.pluginmanager.register(Proofs(), "proofs")
    config.pluginmanager.register(SlowestFirst(), "slowest-first")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the tests out that run at full size alone."""
    if SCALE <= 1:
        left_out = [item for item in items if item.get_closest_marker(FULL_SIZE)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Set up the Java of the tests that start JVMs; at full size a JVM lives long enough for all of its compilers."""
    if SCALE <= 1 and any("tests/unit/" not in item.nodeid for item in session.items):
        use_quick_java()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Restore the handling of SIGPIPE, which a tool in this process changes: it could end a later test."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest) -> RecordedAnswers:
    """Apache Kafka's answers to the tests of this file, recorded or asked now (support/recorded_answers.py)."""
    file = file_of(request.node.nodeid)
    return RecordedAnswers(file, digest(file), kafka_asked())
