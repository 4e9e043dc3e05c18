"""Replicas are spread over racks and brokers."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from metadata.striped_placer import StripedPlacer, UsableBroker

BROKERS = st.lists(
    st.builds(UsableBroker, st.integers(0, 50), st.sampled_from([None, "a", "b", "c"]), st.booleans()),
    min_size=1,
    max_size=12,
    unique_by=lambda broker: broker.broker_id,
).filter(lambda brokers: not all(each.fenced for each in brokers))


@given(BROKERS, st.data(), st.randoms(use_true_random=False))
def test_replicas_are_different_and_the_first_is_live(brokers: list[UsableBroker], data: st.DataObject, chance: Random):
    """S21.12: two replicas of a partition are never on one broker."""
    factor = data.draw(st.integers(1, len(brokers)))
    placer = StripedPlacer(brokers, chance.randrange)
    fenced = {each.broker_id for each in brokers if each.fenced}
    for _ in range(20):
        replicas = placer.place(factor)
        assert len(set(replicas)) == len(replicas) == factor
        assert replicas[0] not in fenced


@given(st.randoms(use_true_random=False))
def test_leaders_are_spread_evenly(chance: Random):
    """S22.3: each broker leads as many partitions as the others."""
    placer = StripedPlacer([UsableBroker(each, None, False) for each in range(4)], chance.randrange)
    leaders = Counter(placer.place(2)[0] for _ in range(40))
    assert leaders == Counter(dict.fromkeys(range(4), 10))


@given(st.randoms(use_true_random=False))
def test_replicas_are_in_different_racks(chance: Random):
    """KIP-36: as far as there are racks."""
    rack_of = {each: "abc"[each % 3] for each in range(6)}
    placer = StripedPlacer([UsableBroker(each, rack, False) for each, rack in rack_of.items()], chance.randrange)
    for _ in range(20):
        assert len({rack_of[each] for each in placer.place(3)}) == 3
