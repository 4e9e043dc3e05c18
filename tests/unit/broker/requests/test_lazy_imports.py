"""Handlers that are imported on the first request, and in the background."""

import subprocess
import sys
from pathlib import Path

import pytest

from broker.requests.dispatcher import CloseConnection, Dispatcher, Waiting
from broker.requests.lazy_imports import FIRST_STEPS, LazyImports
from broker.requests.served_api import Implementation, ServedApi
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.vote import VOTE
from protocol.registry import API_BY_KEY
from runtime.deferred import Deferred
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop
from tests.support.request_stage import RequestStage, decoded

KEYS = (*FIRST_STEPS, ApiKey.HEARTBEAT, ApiKey.VOTE, ApiKey.LIST_GROUPS)


class Stage(RequestStage):
    """A dispatcher with a few APIs that are not loaded. The test decides when its thread pool runs a job."""

    def __init__(self, monkeypatch):
        self.loop = FakeLoop()
        self.pool = []
        self.imported = []
        self.handler = lambda ctx, request: HEARTBEAT.response(error_code=len(request.group_id))
        self.fast_path = None
        self.served = {key: ServedApi(key, key.versions) for key in KEYS}
        self.done = 0
        self.lazy_imports = LazyImports(self.served, self.offload, Timers(self.loop, self.loop.clock))
        self.lazy_imports.on_done = self.count_done
        super().__init__(Dispatcher(self.served))
        self.dispatcher.load = self.lazy_imports.load
        monkeypatch.setattr("broker.requests.served_api.import_module", self.import_module)
        monkeypatch.setattr("broker.requests.served_api._declared", self)

    def import_module(self, name):
        if name.endswith(".vote"):
            raise SyntaxError("half a file")
        self.imported.append(name.rpartition(".")[2])

    def __getitem__(self, key):
        return Implementation(API_BY_KEY[key], self.handler, self.fast_path, None)

    def count_done(self):
        self.done += 1

    def offload(self, function, *args):
        deferred = Deferred()
        self.pool.append(lambda: self.run(deferred, function, args))
        return deferred

    @staticmethod
    def run(deferred, function, args):
        try:
            deferred.resolve(function(*args))
        except Exception as error:
            deferred.fail(error)

    def work(self):
        """Run the jobs that the threads were given."""
        pool, self.pool = self.pool, []
        for each in pool:
            each()
        return len(pool)


@pytest.fixture
def stage(monkeypatch):
    return Stage(monkeypatch)


def test_a_request_waits_for_its_module(stage):
    """No other request of the connection starts meanwhile. The next request finds the module loaded."""
    waiting = stage.ask(group_id="group")
    assert isinstance(waiting, Waiting)
    assert waiting.deferred.mutes
    assert stage.imported == []

    stage.work()
    assert stage.imported == ["heartbeat"]
    assert decoded(stage.finish(waiting)).error_code == 5
    assert decoded(stage.ask(group_id="id")).error_code == 2
    assert stage.pool == []
    assert [each.requests for each in stage.dispatcher.prepared] == [2]


def test_requests_during_an_import_wait_too(stage):
    """Each is answered and counted once. A client that disconnects does not affect the others."""
    waiting = [stage.ask(group_id="g" * each) for each in range(3)]
    waiting[0].deferred.cancel()
    stage.work()

    assert [decoded(stage.finish(each)).error_code for each in waiting[1:]] == [1, 2]
    assert [each.requests for each in stage.dispatcher.prepared] == [2]


def test_an_unserved_api_is_rejected_at_once(stage):
    """Nothing is imported for it."""
    frame = b"\x00\x0c\x00\x05" + bytes(4) + b"\xff\xff" + bytes(10)
    with pytest.raises(CloseConnection, match="Heartbeat v5 is not served"):
        stage.dispatcher.dispatch("the connection", memoryview(frame))
    assert stage.pool == []


def test_a_broken_module_is_an_error_response(stage, caplog):
    """The reason is logged once. From then on the API returns errors at once."""
    waiting = stage.ask(VOTE, 0)
    stage.work()

    assert decoded(stage.finish(waiting), VOTE, 0).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    expected = "VOTE requests are not served: broker.handlers.vote cannot be loaded: SyntaxError('half a file')"
    assert expected in caplog.text
    assert decoded(stage.ask(VOTE, 0), VOTE, 0).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert caplog.text.count("half a file\n") == 1


def test_broken_messages_close_the_connection(stage, monkeypatch):
    """No response could be encoded."""

    class Broken:
        def __getitem__(self, key):
            raise ImportError("no such file")

    waiting = stage.ask(VOTE, 0)
    monkeypatch.setattr("broker.requests.served_api.API_BY_KEY", Broken())
    stage.work()
    with pytest.raises(CloseConnection, match="vote cannot be loaded"):
        stage.finish(waiting)


def test_the_start_imports_first_apis_then_the_rest(stage):
    """One at a time, and past a broken module. A module that a request imported meanwhile is imported only once."""
    stage.lazy_imports.start()
    first = [key.name.lower() for key in FIRST_STEPS]
    assert stage.imported == first

    stage.loop.advance(9_000)
    assert stage.pool == []
    stage.ask()
    stage.work()
    turns = []
    for _ in range(10):
        stage.loop.advance(1_000)
        turns.append(stage.work())

    assert sum(turns) == 2
    assert max(turns) == 1
    assert stage.imported == [*first, "heartbeat", "list_groups"]
    assert all(each.is_loaded for each in stage.served.values())
    assert stage.done == 1


def test_after_the_stop_nothing_is_imported(stage):
    """Imports neither start nor continue."""
    stage.lazy_imports.start()
    stage.loop.advance(11_000)
    assert len(stage.pool) == 1
    stage.lazy_imports.stop()
    stage.work()
    stage.loop.advance(60_000)

    assert stage.pool == []
    assert stage.done == 0


def test_a_start_imports_no_code_of_rare_requests() -> None:
    """Imports of the code that a new broker does not need cost memory in each process of a broker."""
    program = """
import sys
import broker.lifecycle, broker.main_process
from broker.requests.lazy_imports import FIRST_STEPS
from broker.requests.served_api import discover
served = discover()
for key in FIRST_STEPS:
    served[key].load()
rare = (
    "broker.coordinators.share.partitions",
    "coordinator.group.consumer.group",
    "coordinator.group.share.group",
    "coordinator.group.streams.group",
    "storage.cleaner.round",
)
print([name for name in rare if name in sys.modules])
"""
    root = Path(__file__).parents[4]
    ran = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
