"""Records in doubt at a move: which of them the new cluster already holds.

Rules: an unanswered question is asked again; sending without an answer could double records, processing without one
could repeat or skip them. Not for: what to do with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from drlib.errors import Unreachable
from drlib.lab.traffic import scan
from drlib.rules.history import Mirrored

_TAIL_MARGIN_MS = 2000  # timestamps are taken before records are queued


def look_up(
    bootstrap: str, remote_topic: str | None, ids: Collection[str], oldest_ms: int, stopping: Callable[[], bool]
) -> dict[str, Mirrored] | None:
    """Which of `ids`, none of them stamped before `oldest_ms`, are in `remote_topic`, and where.

    Empty when there is no remote topic; None when `stopping()` came before an answer.
    """
    if not ids or remote_topic is None:
        return {}
    while not stopping():
        try:
            return scan.find_in_tail(bootstrap, remote_topic, ids, oldest_ms - _TAIL_MARGIN_MS, deadline_s=5.0)
        except Unreachable:
            continue
    return None
