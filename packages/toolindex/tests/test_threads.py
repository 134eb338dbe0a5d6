"""Blocking work is never left behind by the async code that started it."""

import asyncio
import threading

import pytest
from toolindex import finish_in_thread


def test_repeated_cancellation_still_waits_for_the_thread():
    began, may_end, ended = threading.Event(), threading.Event(), []

    def work(word):
        began.set()
        assert may_end.wait(60)
        ended.append(word)

    async def job():
        task = asyncio.create_task(finish_in_thread(work, "done"))
        await asyncio.to_thread(began.wait, 60)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ended

    assert asyncio.run(job()) == ["done"]
