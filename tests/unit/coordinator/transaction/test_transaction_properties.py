"""Any sequence of requests, timeouts, failures and restarts keeps the rules of coordinator/README.md."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coordinator.transaction.state import LEGAL_FROM, PREPARED, TransactionState
from coordinator.transaction.transaction import NEWER, OLDER
from protocol.error_codes import ErrorCode
from tests.support.scale import scaled
from tests.support.transactions import TransactionHarness, as_stored

IDS = st.sampled_from(["x", "y"])
PROTOCOLS = st.sampled_from([OLDER, NEWER])
PLACES = st.lists(st.sampled_from(["t-0", "t-1", "u-0", "__consumer_offsets-3"]), max_size=3)
#: The distance of a request's epoch from the current one.
LAGS = st.sampled_from([0, 0, 0, 0, -1, -1, 1, 5])


class Transactions(RuleBasedStateMachine):
    """Stored state must be loaded again; a fenced owner never gets an id back; each transaction is committed or
    aborted.
    """

    def __init__(self):
        super().__init__()
        self.h = TransactionHarness()
        self.decided: dict[tuple[str, int, int], TransactionState] = {}
        self.seen: dict[str, tuple[int, int]] = {}

    def producer(self, name, lag=0):
        found = self.h.shard.transactions.get(name)
        return (7, 0) if found is None else (found.producer_id, found.producer_epoch + lag)

    @rule(name=IDS, lag=st.none() | LAGS, timeout_ms=st.sampled_from([1_000, 60_000]))
    def init(self, name, lag, timeout_ms):
        before = self.h.shard.transactions.get(name)
        given = self.h.init(name, None if lag is None else self.producer(name, lag), timeout_ms)
        if given.code is ErrorCode.NONE:
            found = self.h[name]
            assert (found.state, found.partitions) == (TransactionState.EMPTY, frozenset())
            assert (given.producer_id, given.producer_epoch) == (found.producer_id, found.producer_epoch)
            if before is not None and lag is None:
                assert (given.producer_id, given.producer_epoch) > (before.producer_id, before.producer_epoch)

    @rule(name=IDS, lag=LAGS, names=PLACES, protocol=PROTOCOLS)
    def add(self, name, lag, names, protocol):
        before = self.h.shard.transactions.get(name)
        code = self.h.add(self.producer(name, lag), *names, transactional_id=name, client_version=protocol)
        if code is not ErrorCode.NONE:
            assert self.h.shard.transactions.get(name) == before
        else:
            assert lag == 0
            assert self.h.verify(self.producer(name), *names, transactional_id=name) == [ErrorCode.NONE] * len(names)

    @rule(name=IDS, lag=LAGS, commit=st.booleans(), protocol=PROTOCOLS)
    def end(self, name, lag, commit, protocol):
        before = self.h.shard.transactions.get(name)
        ended = self.h.end(self.producer(name, lag), commit, transactional_id=name, client_version=protocol)
        after = self.h.shard.transactions.get(name)
        if ended.code is not ErrorCode.NONE:
            assert after == before
        else:
            wanted = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
            assert (after.state in wanted) is commit

    @rule()
    def markers(self):
        self.h.write_markers()
        assert not self.h.shard.prepared

    @rule(milliseconds=st.sampled_from([1, 1_000, 100_000]))
    def time(self, milliseconds):
        self.h.wall_ms += milliseconds
        self.h.abort_timed_out()

    @rule()
    def expiry(self):
        self.h.wall_ms += self.h.settings.id_expiration_ms
        for name in self.h.remove_expired():
            self.seen.pop(name, None)

    @rule()
    def failing(self):
        before = dict(self.h.shard.transactions)
        self.h.failure = ErrorCode.NOT_COORDINATOR
        for name in ("x", "y"):
            self.h.init(name)
            self.h.add(self.producer(name), "t-9", transactional_id=name)
            self.h.end(self.producer(name), True, transactional_id=name)
        self.h.failure = ErrorCode.NONE
        assert self.h.shard.transactions == before

    @rule(level=st.sampled_from([0, 1, 2]))
    def features(self, level):
        """Records are written in the version of the new level."""
        self.h.level = level

    @rule()
    def restart(self):
        self.h.shard = self.h.loaded()

    @invariant()
    def state_is_that_of_the_log(self):
        """A record of version 0 does not have all fields: only its own are compared."""
        loaded = self.h.loaded()
        assert set(loaded.transactions) == set(self.h.shard.transactions)
        for name, live in self.h.shard.transactions.items():
            found = loaded.transactions[name]
            if found.previous_producer_id == -1:
                assert (found.state, found.producer_id, found.producer_epoch) == (
                    live.state,
                    live.producer_id,
                    live.producer_epoch,
                )
                assert (found.partitions, found.start_ms, found.update_ms) == (
                    live.partitions,
                    live.start_ms,
                    live.update_ms,
                )
            else:
                assert found == as_stored(live)
        assert set(loaded.prepared) == set(self.h.shard.prepared)
        assert set(loaded.ongoing) == set(self.h.shard.ongoing)

    @invariant()
    def owners_go_forward(self):
        for name, found in self.h.shard.transactions.items():
            owner = (found.producer_id, found.producer_epoch)
            assert owner >= self.seen.get(name, owner)
            self.seen[name] = owner
            assert found.state in LEGAL_FROM
            assert (found.state in PREPARED) is (name in self.h.shard.prepared)
            assert found.producer_epoch <= 32_767


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=scaled(40), stateful_step_count=40, deadline=None)
