"""Memory of frames that the proxy forwards."""

from __future__ import annotations

import asyncio

from tools.wire.sessions.proxy import SMALL_BYTES, FrameMemory


def test_large_frames_wait_for_memory() -> None:
    """Small ones do not. Waiting ones continue when memory is free."""

    async def scenario() -> list[str]:
        room, admitted = FrameMemory(3 * SMALL_BYTES), []
        first_may_end = asyncio.Event()

        async def first() -> None:
            async with room.taken(2 * SMALL_BYTES):
                admitted.append("first")
                await first_may_end.wait()

        async def second() -> None:
            async with room.taken(2 * SMALL_BYTES):
                admitted.append("second")

        tasks = [asyncio.create_task(first()), asyncio.create_task(second())]
        while not admitted:
            await asyncio.sleep(0)
        async with room.taken(SMALL_BYTES):
            admitted.append("small")
        first_may_end.set()
        await asyncio.gather(*tasks)
        return admitted

    assert asyncio.run(scenario()) == ["first", "small", "second"]


def test_cancelled_frames_free_their_memory() -> None:
    """Before and after they got it."""

    async def scenario() -> None:
        room = FrameMemory(2 * SMALL_BYTES)

        async def take() -> None:
            async with room.taken(2 * SMALL_BYTES):
                await asyncio.Event().wait()

        tasks = [asyncio.create_task(take()), asyncio.create_task(take())]
        for _ in range(5):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(30), room.taken(2 * SMALL_BYTES):
            pass

    asyncio.run(scenario())
