"""What several steps ask while a plan is made or compared, asked once for all of them.

Rules: within `one_look`, and in threads that carry its context, the first that asks for a key asks, and the others get its
answer or its error. Outside nothing is kept: a step that acts asks again.
Not for: a silence that later steps of a run are to know (`drlib.drill.step.known_silence`).
"""

import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar, cast

Answer = TypeVar("Answer")


class _Look:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.answers: dict[Hashable, Future[Any]] = {}


_LOOK: Final[ContextVar[_Look | None]] = ContextVar("look", default=None)


@contextmanager
def one_look() -> Iterator[None]:
    token = _LOOK.set(_Look())
    try:
        yield
    finally:
        _LOOK.reset(token)


def once(key: Hashable, ask: Callable[[], Answer]) -> Answer:
    """The answer of `ask`, which is called for the first of this key in a look."""
    look = _LOOK.get()
    if look is None:
        return ask()
    with look.lock:
        known = look.answers.get(key)
        mine = known or look.answers.setdefault(key, Future())
    if known is None:
        try:
            mine.set_result(ask())
        except BaseException as error:
            mine.set_exception(error)
    return cast(Answer, mine.result())
