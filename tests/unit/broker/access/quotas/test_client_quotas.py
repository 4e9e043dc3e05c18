"""Which quota applies to a client, and which clients share it."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from broker.access.quotas.client_quotas import ClientLimits, ClientQuotas
from metadata.delta import Delta
from metadata.image import MetadataImage, QuotaEntity
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.heartbeat import HEARTBEAT
from tests.support.fake_loop import FakeLoop

RATE = "producer_byte_rate"
WINDOWS = {
    "quota.window.num": 11,
    "quota.window.size.seconds": 1,
    "controller.quota.window.num": 11,
    "controller.quota.window.size.seconds": 1,
}
#: The most specific first: (user, client id); None matches any, "" is not named.
LEVELS = [("u", "c"), ("u", None), ("u", ""), (None, "c"), (None, None), (None, ""), ("", "c"), ("", None)]
#: The clients that share the quota of each level.
SHARED_BY = ["uc", "uc", "u", "uc", "uc", "u", "c", "c"]


def entity(user: str | None, client_id: str | None) -> QuotaEntity:
    parts = [("client-id", client_id)] if client_id != "" else []
    return tuple([*parts, ("user", user)] if user != "" else parts)


class Fixture:
    def __init__(self) -> None:
        self.image = MetadataImage()
        self.calls: list[ClientQuotas | None] = []
        config: Any = SimpleNamespace(get_int=WINDOWS.__getitem__)
        self.quotas = ClientQuotas(config, self.image, FakeLoop().clock, self.calls.append)

    def set(self, user: str | None, client_id: str | None, value: float | None, key: str = RATE) -> None:
        if value is None:
            del self.image.client_quotas[entity(user, client_id)]
        else:
            self.image.client_quotas.setdefault(entity(user, client_id), {})[key] = value
        self.quotas.on_change(Delta(changed_quotas=True))

    def of(self, user: str = "u", client_id: str = "c") -> ClientLimits | None:
        return self.quotas.of(f"User:{user}", client_id.encode())

    def bound(self, user: str = "u", client_id: str = "c") -> float | None:
        limits = self.of(user, client_id)
        return None if limits is None or limits.produced is None else limits.produced.bound


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def test_the_most_specific_quota_counts(fixture: Fixture) -> None:
    for number, level in reversed(list(enumerate(LEVELS))):
        fixture.set(*level, number + 1.0)
        assert fixture.bound() == number + 1.0


def test_each_level_counts_for_the_clients_that_it_names(fixture: Fixture) -> None:
    for level in LEVELS:
        fixture.set(*level, 5.0)
        for user, client_id in product(("u", "other"), ("c", "another", "")):
            user_fits = level[0] in ("", None, user)
            client_fits = level[1] == "" or (client_id != "" and level[1] in (None, client_id))
            assert (fixture.bound(user, client_id) is not None) == (user_fits and client_fits), (level, user, client_id)
        fixture.set(*level, None)


@pytest.mark.parametrize(("level", "shared_by"), list(zip(LEVELS, SHARED_BY, strict=True)))
def test_which_clients_share_a_quota(fixture: Fixture, level: tuple[str | None, str | None], shared_by: str) -> None:
    fixture.set(*level, 5.0)
    mine = fixture.of()
    for user, client_id in (("other", "c"), ("u", "another")):
        theirs = fixture.of(user, client_id)
        same = (user == "u" or "u" not in shared_by) and (client_id == "c" or "c" not in shared_by)
        assert mine is not None
        assert (theirs is not None and theirs.produced is mine.produced) == same


def test_quotas_of_each_kind_are_found_separately(fixture: Fixture) -> None:
    fixture.set("u", "c", 1.0, "consumer_byte_rate")
    fixture.set("u", "", 2.0, "request_percentage")
    fixture.set("", None, 3.0, "controller_mutation_rate")
    limits = fixture.of()
    assert limits is not None
    assert limits.produced is None
    assert [each.bound for each in limits if each is not None] == [1.0, 2.0, 3.0]


def test_recorded_usage_stays_when_a_quota_changes(fixture: Fixture) -> None:
    fixture.set("u", "", 100.0)
    before = fixture.of()
    assert before is not None
    assert before.produced is not None
    before.produced.record(1000, 0)
    fixture.set("u", "", 50.0)
    after = fixture.of()
    assert after is not None
    assert after.produced is not None
    assert after.produced.record(0, 0) == 10_000


def test_without_quotas_there_is_no_look_up(fixture: Fixture) -> None:
    assert fixture.calls == [None]
    fixture.image.client_quotas[(("ip", None),)] = {"connection_creation_rate": 1.0}
    fixture.set("u", "", 1.0)
    assert fixture.calls == [None, fixture.quotas]
    assert fixture.quotas.charge(_Peer(), b"c", HEARTBEAT, 1) is not None  # type: ignore[arg-type]
    fixture.set("u", "", None)
    assert fixture.calls[-1] is None
    assert fixture.quotas.charge(_Peer(), b"c", HEARTBEAT, 1) is None  # type: ignore[arg-type]


def test_random_client_ids_fill_no_memory(fixture: Fixture) -> None:
    fixture.set("", None, 1.0)
    for number in range(10_100):
        fixture.of("u", f"c{number}")
    assert len(fixture.quotas._taken) == 10_000


def test_long_client_ids_fill_no_memory(fixture: Fixture) -> None:
    """No long id is kept, with or without a quota. Its usage still counts, for each client separately."""
    fixture.set("v", "", 1.0)
    fixture.set("", None, 1.0, "consumer_byte_rate")
    long = [number + "c" * 32_000 for number in "12"]
    for user in "uv":
        for client_id in long:
            fixture.of(user, client_id)
    assert fixture.quotas._limits == {}
    assert max(len(client_id) for _, _, client_id in fixture.quotas._taken) < 100
    first, same, other = (fixture.of("u", client_id) for client_id in (long[0], long[0], long[1]))
    assert first is not None
    assert same is not None
    assert other is not None
    assert first.fetched is same.fetched is not other.fetched


def test_nothing_is_charged_before_authentication(fixture: Fixture) -> None:
    """It would be charged to ANONYMOUS."""
    fixture.set(None, "", 1.0)
    peer = _Peer()
    peer.is_admitted = False
    assert fixture.quotas.charge(peer, b"c", API_VERSIONS, 1) is None  # type: ignore[arg-type]
    peer.is_admitted = True
    assert fixture.quotas.charge(peer, b"c", API_VERSIONS, 1) is not None  # type: ignore[arg-type]


class _Peer:
    principal = "User:u"
    is_admitted = True
