"""The uniform assignor for members that read different topics.

1. Each member keeps its partitions of the topics that it still reads. 2. Each free partition goes to the member with
the least load that reads its topic. 3. For each topic, partitions move from the members with the most load to those
with the least, until their loads differ by at most one.

Topics with the most partitions per reader come first. Topics with many readers come last, because they can level the
remaining differences.
"""

from __future__ import annotations

from coordinator.group.assignors.java_order import uuid_rank
from coordinator.group.assignors.spec import GroupSpec, Targets

#: The most rounds over all topics: moving partitions of one topic may unbalance the readers of another.
MOST_ROUNDS = 16
NOBODY = -1


def assign(group: GroupSpec) -> Targets:
    """Return the next target of each member; an empty mapping if no member reads anything."""
    mixed = Mixed(group)
    return mixed.run() if mixed.readers else {}


class Mixed:
    """One computation. Members are numbered in the group's order; `owners[topic][partition]` is a member's number."""

    def __init__(self, group: GroupSpec) -> None:
        self.group = group
        self.member_ids = group.member_ids
        self.readers: dict[bytes, list[int]] = {}
        self.owners: dict[bytes, list[int]] = {}
        for number, member_id in enumerate(self.member_ids):
            for topic_id, count in group.members[member_id].topics.items():
                self.readers.setdefault(topic_id, []).append(number)
                self.owners.setdefault(topic_id, [NOBODY] * count)
        self.loads = [0] * len(self.member_ids)

    def run(self) -> Targets:
        """Run the three steps and return the targets."""
        self.keep()
        topics = sorted(self.readers, key=self.rank)
        self.fill(topics)
        self.balance_topics([topic_id for topic_id in topics if len(self.readers[topic_id]) > 1])
        return self.targets()

    def rank(self, topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
        """Return the sort key of a topic: most partitions per reader first, then fewest readers."""
        readers = len(self.readers[topic_id])
        return -len(self.owners[topic_id]) / readers, readers, uuid_rank(topic_id)

    def keep(self) -> None:
        """Leave each member the partitions that it still reads."""
        for number, member_id in enumerate(self.member_ids):
            member = self.group.members[member_id]
            for topic_id, partitions in member.target.items():
                if topic_id in member.topics:
                    self.loads[number] += len(partitions)
                    for partition in partitions:
                        self.owners[topic_id][partition] = number

    def fill(self, topics: list[bytes]) -> None:
        """Assign the free partitions."""
        for topic_id in topics:
            owners = self.owners[topic_id]
            free = [partition for partition, owner in enumerate(owners) if owner == NOBODY]
            if free:
                line = Line(self.loads, self.readers[topic_id])
                for partition in free:
                    self.give(owners, partition, line.next_least())

    def balance_topics(self, topics: list[bytes]) -> None:
        """Balance the readers of each topic, until a whole round moves nothing."""
        last_moved = NOBODY
        for _ in range(MOST_ROUNDS):
            for place, topic_id in enumerate(topics):
                if place == last_moved:
                    return
                if self.balance(topic_id) or last_moved == NOBODY:
                    last_moved = place

    def balance(self, topic_id: bytes) -> bool:
        """Move partitions of one topic. Return whether any was moved."""
        line = Line(self.loads, self.readers[topic_id])
        if line.spread <= 1:
            return False
        owners = self.owners[topic_id]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        moved = False
        while not line.is_balanced:
            giver = line.next_most()
            while giver != NOBODY and not owned.get(giver):
                line.exclude()
                giver = line.next_most()
            if giver == NOBODY:
                break
            partition = owned[giver].pop()
            taker = line.next_least()
            if line.is_balanced:
                break
            self.give(owners, partition, taker)
            moved = True
        return moved

    def give(self, owners: list[int], partition: int, number: int) -> None:
        """Move a partition to the member of this number."""
        if owners[partition] != NOBODY:
            self.loads[owners[partition]] -= 1
        owners[partition] = number
        self.loads[number] += 1

    def targets(self) -> Targets:
        """Return the targets by member."""
        given: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in self.member_ids}
        for topic_id, owners in self.owners.items():
            for partition, number in enumerate(owners):
                given[self.member_ids[number]].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in given.items()
        }


class Line:
    """The readers of a topic, ordered by load, with a pointer at each end.

    `next_least` cycles through the members with the least load, as if each of them had just got one partition. The
    range grows when the load of the next members is reached. `next_most` does the same from the other end. Loads
    outside both ranges are still the initial ones, so the line is sorted only once.
    """

    def __init__(self, loads: list[int], readers: list[int]) -> None:
        self._loads = loads
        self._line = sorted(readers, key=lambda number: (loads[number], number))
        smallest, largest = loads[self._line[0]], loads[self._line[-1]]
        self.spread = largest - smallest
        self._low_end, self._low_load, self._next_low = 0, smallest - 1, 0
        self._high_begin = self._high_end = len(self._line)
        self._high_load, self._next_high = largest + 1, len(self._line) - 1

    @property
    def is_balanced(self) -> bool:
        """Return whether the loads at both ends differ by at most one."""
        return self._high_load - self._low_load <= 1

    def next_least(self) -> int:
        """Return the number of the member that gets the next partition."""
        if self._next_low >= self._low_end:
            self._low_load += 1
            while self._low_end < len(self._line) and self._loads[self._line[self._low_end]] == self._low_load:
                self._low_end += 1
            self._next_low = 0
        number = self._line[self._next_low]
        self._next_low += 1
        return number

    def next_most(self) -> int:
        """Return the number of the member that gives a partition away; NOBODY if all are excluded."""
        if self._next_high < self._high_begin:
            if self._high_end <= self._high_begin and self._high_begin > 0:
                self._high_load = self._loads[self._line[self._high_begin - 1]]
            else:
                self._high_load -= 1
            while self._high_begin > 0 and self._loads[self._line[self._high_begin - 1]] == self._high_load:
                self._high_begin -= 1
            self._next_high = self._high_end - 1
        if self._next_high < 0:
            return NOBODY
        number = self._line[self._next_high]
        self._next_high -= 1
        return number

    def exclude(self) -> None:
        """Exclude the member that `next_most` returned last."""
        line, place, last = self._line, self._next_high + 1, self._high_end - 1
        line[place], line[last] = line[last], line[place]
        self._high_end -= 1
