"""One question and its answer, or the reason why there is none.

Rules: every failure of a question, also an unexpected exception, becomes its answer: `Unanswered`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from drlib.drill.readiness.checks.observations import Unanswered
from drlib.errors import DrlibError
from drlib.mirror.threads import in_daemon

ASK_S: Final = 15.0  # one question; as long as a cluster handle waits for one call

Answer = TypeVar("Answer")


async def ask(
    question: Awaitable[Answer], seconds: float = ASK_S, deadline: AbstractAsyncContextManager[object] | None = None
) -> Answer | Unanswered:
    """The answer, or why there was none within `seconds`, or within `deadline`. Raises nothing but cancellation."""
    try:
        async with deadline or asyncio.timeout(seconds):
            return await question
    except DrlibError as error:
        return refusal(error)
    except TimeoutError:
        return Unanswered(
            f"no answer within {seconds:.3g} s",
            "Check the cluster's brokers and the network, then run drlib doctor again.",
        )
    except OSError as error:
        return Unanswered(
            f"no answer: {error}", "Check the cluster's brokers and the network, then run drlib doctor again."
        )
    except Exception as error:  # a defect in one question must not hide the answers to the others
        return Unanswered(f"unexpected error: {type(error).__name__}: {error}", "Report this line as a bug.")


async def ask_blocking(work: Callable[[], Answer], seconds: float = ASK_S) -> Answer | Unanswered:
    """The same for blocking work, in a daemon thread: the process does not wait for it when it ends."""
    return await ask(in_daemon(work), seconds)


def refusal(error: DrlibError) -> Unanswered:
    """An error as the reason of a missing answer."""
    return Unanswered(f"{error.what}: {error.why}", error.remedy)
