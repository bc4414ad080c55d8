"""A coroutine, run to its end by a thread that may not wait for one.

Rules: it runs on a thread of its own, since a notebook's kernel runs a loop in the caller's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Answer = TypeVar("Answer")


def blocking(work: Coroutine[object, object, Answer]) -> Answer:
    """What `work` returns or raises."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
