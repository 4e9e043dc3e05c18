"""Finds the trouble of a simulated cluster whose faults have ended: it must become whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.world import World


def trouble(world: World) -> str | None:
    """Return what is wrong: each partition has a leader, and all replicas are in sync, equal, committed and known."""
    return _trouble_of_replicas(world) or _trouble_of_places(world)


def _trouble_of_replicas(world: World) -> str | None:
    for key, state in world.controller.image.partitions.items():
        process = world.processes.get(state.leader)
        leader = process.leaders.partitions.get(key) if process is not None else None
        if leader is None:
            return f"partition {key[1]} has no leader: {state}"
        if set(state.isr) != set(state.replicas) or leader.state.isr.is_pending:
            return f"partition {key[1]} has out of sync replicas: {state}, {leader.state.isr}"
        if state.is_reassigning:
            return f"the reassignment of partition {key[1]} does not end: {state}"
        end = leader.log.log_end_offset
        if not all(key in world.disks[each].logs for each in state.replicas):
            return f"a replica of partition {key[1]} has no log: {state}"
        logs = [world.disks[each].logs[key] for each in state.replicas]
        last = {each.at(end - 1) for each in logs if each.base < end}
        if any(each.log_end_offset != end for each in logs) or len(last) > 1:
            return f"partition {key[1]} has different replicas"
        if leader.state.high_watermark != end or leader.waiting:
            return f"partition {key[1]} is committed up to {leader.state.high_watermark} of {end}"
    return None


def _trouble_of_places(world: World) -> str | None:
    """R: only assigned brokers have a replica. D: the controller knows its directory."""
    for broker_id, process in world.processes.items():
        if len(process.assignments) or process.moves:
            return f"broker {broker_id} goes on moving or assigning replicas"
        for key, place in process.disk.places.items():
            state = world.controller.image.partitions[key]
            if broker_id not in state.replicas:
                return f"broker {broker_id} keeps a replica of partition {key[1]}, which is on {state.replicas}"
            if state.directory_of(broker_id) != place:
                return f"broker {broker_id} has partition {key[1]} in {place[:1].hex()}: {state.directories}"
    return None


def trouble_of_directories(world: World) -> str | None:
    """D: no replica in a failed directory leads, and the controller knows the directories of all others."""
    for key, state in world.controller.image.partitions.items():
        process = world.processes.get(state.leader)
        if process is None:
            continue
        disk = process.disk
        is_hidden = key in disk.hidden and state.directory_of(state.leader) in disk.failed
        if is_hidden or disk.places.get(key) in disk.failed:
            return f"the controller lets broker {state.leader} lead partition {key[1]} in a failed directory: {state}"
    return _trouble_of_places(world)
