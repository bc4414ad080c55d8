"""One question and its answer, or why there is none.

Rules: whatever goes wrong with a question, also what nobody foresaw, is its answer: `Unseen`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from drlib.drill.readiness.checks.observations import Unseen
from drlib.errors import DrlibError
from drlib.mirror.threads import in_daemon

ASK_S: Final = 15.0  # one question; as a handle on a cluster waits for one call (`clusters.DEFAULT_TIMEOUT_S`)

Answer = TypeVar("Answer")


async def asked(question: Awaitable[Answer], seconds: float = ASK_S) -> Answer | Unseen:
    """The answer within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            return await question
    except DrlibError as error:
        return Unseen(f"{error.what}: {error.why}", error.remedy)
    except TimeoutError:
        return Unseen(f"no answer within {seconds:g} s", "Look at the cluster's brokers and the link, then look again.")
    except OSError as error:
        return Unseen(f"no answer: {error}", "Look at the cluster's brokers and the link, then look again.")
    except Exception as error:  # a defect of ours in one question must not hide the answers to the others
        return Unseen(f"unforeseen: {type(error).__name__}: {error}", "Report it with this line.")


async def asked_blocking(work: Callable[[], Answer], seconds: float = ASK_S) -> Answer | Unseen:
    """The same for work that blocks; nobody waits for its thread when the process ends."""
    return await asked(in_daemon(work), seconds)


async def nobody(answer: Unseen) -> Unseen:
    """A question that is not asked, since who would answer does not."""
    return answer
