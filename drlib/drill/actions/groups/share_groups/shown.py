"""What a step says of the share groups that it moved: its evidence, and rows beside those of consumer groups. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from drlib.drill.actions.groups.rules import sum_known
from drlib.drill.actions.groups.share_groups import rules
from drlib.drill.actions.groups.share_groups.rules import ShareMove
from drlib.drill.step.action import Evidence
from drlib.formats import second
from drlib.model import Flow
from drlib.runs.journal import Scalar


def evidence(moves: Sequence[ShareMove], again: Mapping[str, int | None]) -> Evidence:
    """What a step reports; nothing where the flow has no share groups. `again`: as the target itself says."""
    if not moves:
        return {}
    predicted = rules.redelivered_by_group(moves)
    not_carried = sorted({move.why_not for move in moves if move.why_not})
    return {
        **counts(moves),
        "share_acknowledged_carried": sum(move.to_write for move in moves if move.carried),
        "share_redelivered_predicted": sum_known(predicted.values()),
        "share_redelivered_by_the_target": sum_known(again.values()) if again else 0,
        **({"share_not_carried": "; ".join(not_carried)} if not_carried else {}),
    }


def counts(moves: Sequence[ShareMove]) -> Evidence:
    """How many there are; nothing where the flow has no share groups."""
    if not moves:
        return {}
    return {
        "share_groups": len({move.group for move in moves}),
        "share_partitions": len(moves),
        "share_left": sum(not move.moved for move in moves),
    }


def rows(moves: Iterable[ShareMove], flow: Flow) -> list[dict[str, Scalar]]:
    """Rows of the columns that positions of consumer groups have."""
    return [
        {
            "group": f"{move.group} (share group)",
            "topic": move.source.topic,
            "partition": move.source.partition,
            f"on {flow.source}": move.source_start,
            f"on {flow.target}": move.start if move.moved else None,
            "meaning": move.kind.value,
            "records": move.records,
            "reads again at most": move.redelivered,
            "before": "none" if move.before is None else move.before,
            "left because": move.why or move.not_written,
            "as of": f"as of {second(move.as_of_ms)} UTC; {_acknowledged(move)}",
        }
        for move in moves
    ]


def _acknowledged(move: ShareMove) -> str:
    later = "; what it acknowledged after that is delivered again" if move.checkpointed else ""
    return _behind(move) + later


def _behind(move: ShareMove) -> str:
    if move.unknown is None:
        return "how many records it acknowledged behind that is not known"
    if move.unknown:
        return f"{move.unknown:,} acknowledged behind that, and which is not known: they are delivered again"
    if not move.behind:
        return "nothing acknowledged behind that"
    words = f"{move.behind:,} acknowledged behind that"
    if move.carried is None:
        return words
    return f"{words}, and not delivered again" if move.carried else f"{words}, and delivered again: {move.why_not}"
