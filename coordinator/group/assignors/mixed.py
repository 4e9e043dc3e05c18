"""The uniform assignor for members that read different topics.

Everyone keeps what it has of topics that it still reads; what is free goes to the least loaded reader of its topic;
then, topic by topic, partitions move from the most to the least loaded readers until they differ by one at most.
Topics that give their readers most to do come first, since those with many readers can even things out last.
"""

from __future__ import annotations

from coordinator.group.assignors.java_order import uuid_rank
from coordinator.group.assignors.spec import GroupSpec, Targets

#: Rounds over all topics; moving partitions of one may unbalance another's readers.
MOST_ROUNDS = 16
NOBODY = -1


def assign(group: GroupSpec) -> Targets:
    """The next target of each member; nothing at all where nobody reads anything."""
    mixed = Mixed(group)
    return mixed.run() if mixed.readers else {}


class Mixed:
    """One computation. Members are numbered in the group's order; `owners[topic][partition]` is such a number."""

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
        """Keep, fill, even out."""
        self.keep()
        topics = sorted(self.readers, key=self.rank)
        self.fill(topics)
        self.even_out([topic_id for topic_id in topics if len(self.readers[topic_id]) > 1])
        return self.targets()

    def rank(self, topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
        """Topics in order: most partitions a reader first, then fewest readers."""
        readers = len(self.readers[topic_id])
        return -len(self.owners[topic_id]) / readers, readers, uuid_rank(topic_id)

    def keep(self) -> None:
        """Everyone keeps what it still reads."""
        for number, member_id in enumerate(self.member_ids):
            member = self.group.members[member_id]
            for topic_id, partitions in member.target.items():
                if topic_id in member.topics:
                    self.loads[number] += len(partitions)
                    for partition in partitions:
                        self.owners[topic_id][partition] = number

    def fill(self, topics: list[bytes]) -> None:
        """Give away what nobody has."""
        for topic_id in topics:
            owners = self.owners[topic_id]
            free = [partition for partition, owner in enumerate(owners) if owner == NOBODY]
            if free:
                line = Line(self.loads, self.readers[topic_id])
                for partition in free:
                    self.give(owners, partition, line.next_least())

    def even_out(self, topics: list[bytes]) -> None:
        """Balance each topic's readers until a whole round has moved nothing."""
        last_moved = NOBODY
        for _ in range(MOST_ROUNDS):
            for place, topic_id in enumerate(topics):
                if place == last_moved:
                    return
                if self.balance(topic_id) or last_moved == NOBODY:
                    last_moved = place

    def balance(self, topic_id: bytes) -> bool:
        """Move partitions of one topic. Returns whether any was moved."""
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
        """Hand a partition over."""
        if owners[partition] != NOBODY:
            self.loads[owners[partition]] -= 1
        owners[partition] = number
        self.loads[number] += 1

    def targets(self) -> Targets:
        """The outcome, by member."""
        given: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in self.member_ids}
        for topic_id, owners in self.owners.items():
            for partition, number in enumerate(owners):
                given[self.member_ids[number]].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in given.items()
        }


class Line:
    """The readers of a topic by load, with a pointer at each end.

    `next_least` goes round among those with the least load, each time as if all of them had got one more; the range
    widens when the next ones are reached. `next_most` does the same from the other end. Loads beyond both ranges are
    still those of the beginning, so nothing is sorted anew.
    """

    def __init__(self, loads: list[int], readers: list[int]) -> None:
        self._loads = loads
        self._line = sorted(readers, key=lambda number: (loads[number], number))
        least, most = loads[self._line[0]], loads[self._line[-1]]
        self.spread = most - least
        self._low_end, self._low_load, self._next_low = 0, least - 1, 0
        self._high_begin = self._high_end = len(self._line)
        self._high_load, self._next_high = most + 1, len(self._line) - 1

    @property
    def is_balanced(self) -> bool:
        """Whether both ends differ by one at most."""
        return self._high_load - self._low_load <= 1

    def next_least(self) -> int:
        """Who is to take the next partition."""
        if self._next_low >= self._low_end:
            self._low_load += 1
            while self._low_end < len(self._line) and self._loads[self._line[self._low_end]] == self._low_load:
                self._low_end += 1
            self._next_low = 0
        number = self._line[self._next_low]
        self._next_low += 1
        return number

    def next_most(self) -> int:
        """Who is to give the next partition; NOBODY if all are excluded."""
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
        """Take whom `next_most` just gave out of that end."""
        line, place, last = self._line, self._next_high + 1, self._high_end - 1
        line[place], line[last] = line[last], line[place]
        self._high_end -= 1
