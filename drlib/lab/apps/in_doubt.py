"""Records in doubt at a move: those that the mirror topic on the new cluster holds already.

Rules: the mirror topic is the one that the pointer names or, under identical names, the topic itself. The search is repeated
until it is answered; producing without an answer could duplicate records, processing without one could repeat or skip them.
Records that the mirror holds are written to the history and not produced again.
"""

from collections.abc import Callable, Collection, Sequence

from drlib.client.pointer import Pointer
from drlib.errors import Unreachable
from drlib.formats import one_line
from drlib.lab.apps.fleet import Sent
from drlib.lab.apps.flights import Flight
from drlib.lab.checker import scan
from drlib.lab.checker.history import Mirrored, ProducedStatus
from drlib.lab.checker.history_files import HistoryWriter
from drlib.lab.connection import Where
from drlib.outgoing.terminal import show

_TAIL_MARGIN_MS = 2000  # timestamps are taken before records are queued


def find_on_mirror(
    where: Where, remote_topic: str | None, ids: Collection[str], oldest_ms: int, stopping: Callable[[], bool]
) -> dict[str, Mirrored] | None:
    """Those of `ids` that are in `remote_topic`, by id; none has a timestamp before `oldest_ms`.

    Empty when there is no remote topic; None when `stopping()` became true before an answer.
    """
    if not ids or remote_topic is None:
        return {}
    said = ""
    while not stopping():
        try:
            return scan.find_in_tail(where, remote_topic, ids, oldest_ms - _TAIL_MARGIN_MS, deadline_s=5.0)
        except Unreachable as error:
            if str(error) != said:  # once, however long it lasts
                said = str(error)
                show(one_line(f"{len(ids)} records in doubt wait: {said}"), error=True)
    return None


def mirror_of(pointer: Pointer, topic: str) -> str | None:
    """The topic on the new cluster that has what the mirror of `topic` holds; None where nothing was mirrored.

    A pointer that was moved says where each topic ended that keeps its name.
    """
    return pointer.remote_topic(topic) or (topic if topic in pointer.cutover else None)


def still_to_send(
    doubts: Sequence[Sent],
    pointer: Pointer,
    topic: str,
    history: HistoryWriter,
    stopping: Callable[[], bool],
    where: Where | None = None,
) -> list[Flight]:
    """The records in doubt that the mirror of `topic` on the new cluster does not hold.

    `where`: how to reach it, by default at the pointer's address without security.
    """
    remote = mirror_of(pointer, topic)
    if not doubts or remote is None:
        return [sent.flight for sent in doubts]
    oldest_ms = min(sent.stamp_ms for sent in doubts)  # the log is searched by the producer's timestamps
    mirrored = find_on_mirror(
        where or pointer.bootstrap, remote, {sent.flight.id for sent in doubts}, oldest_ms, stopping
    )
    if mirrored is None:
        return []
    for sent in doubts:
        if (copy := mirrored.get(sent.flight.id)) is not None:
            history.append(sent.row(pointer.active, remote, ProducedStatus.MIRRORED, copy.partition, copy.offset))
    return [sent.flight for sent in doubts if sent.flight.id not in mirrored]
