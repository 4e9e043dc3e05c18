"""The prefix cache: learned heads are cached as long as they repeat, within a limit."""

from __future__ import annotations

from protocol.shortcuts.prefix_cache import Head, Heads


class Words(Heads[Head]):
    """Heads that begin with a letter; counts how many it parses."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.parsed: list[bytes] = []

    def _parse(self, head: bytes) -> Head | None:
        self.parsed.append(head)
        return Head(head) if head.isalpha() else None

    def read(self, head: bytes) -> Head | None:
        return self._latest.get(head) or self._recall(head)

    def read_and_learn(self, head: bytes) -> Head:
        found = self.read(head)
        assert found is not None
        if found.unlearned:
            self.learn(found)
        return found


def test_learned_head_is_not_parsed_again() -> None:
    words = Words(10)
    learned = words.read_and_learn(b"a")
    assert words.read(b"a") is learned
    assert not learned.unlearned
    assert words.parsed == [b"a"]


def test_head_that_was_not_learned_is_not_cached() -> None:
    """A client can invent any number of requests that are rejected."""
    words = Words(10)
    for head in (b"a", b"a", b"1", b"1"):
        words.read(head)
    assert words.parsed == [b"a", b"a", b"1", b"1"]
    assert not words._latest


def test_only_repeated_heads_stay_cached() -> None:
    words = Words(4)
    for number in range(100):
        words.read_and_learn(b"often")
        words.read_and_learn(b"once" + b"x" * number)
        assert len(words._latest) + len(words._earlier) <= 8
    assert words.parsed.count(b"often") == 1
    assert words.parsed.count(b"once") == 1
    words.read(b"once")
    assert words.parsed.count(b"once") == 2


def test_head_unused_between_two_agings_is_evicted() -> None:
    words = Words(10)
    words.read_and_learn(b"often")
    words.read_and_learn(b"once")
    for _ in range(3):
        assert words.age()
        words.read_and_learn(b"often")
    assert [*words._latest, *words._earlier] == [b"often", b"often"]
    assert words.parsed == [b"often", b"once"]
    assert words.age()
    assert not words.age()
    assert not words._latest
    assert not words._earlier
