"""Positions that a planned move writes before the pointer moves, and what was there before: put back where the move fails.

Rules: they are in the run's folder before they are written, so that a process that resumes or undoes the step knows which are
its own: these may be set back, and do not count as what a group has read there. Of several tries the first one's `before`
counts. A group that others moved meanwhile, as a mirror that synchronizes offsets does, is theirs, and left.
Not for: what was decided once the applications have moved (`drlib.drill.actions.groups.decided`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from drlib.drill.actions.groups import commit as group_writing
from drlib.drill.actions.groups import decided
from drlib.drill.actions.groups.rules import GroupPositions, PositionMove
from drlib.drill.step.step_output import DETAILS
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.group_offsets import Positions
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition


class TriedPositions:
    """Of `step` of the run in `run_dir`, on `target`."""

    def __init__(self, run_dir: Path, target: ClusterSettings, step: str) -> None:
        self._run_dir, self._target, self._use = run_dir, target, f"tried.{step}"

    def kept(self) -> tuple[PositionMove, ...]:
        """What may have been written and is not put back."""
        return decided.read(self._run_dir, self._target.alias, self._use) or ()

    def ours(self, committed: GroupPositions) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """Which of the positions that are `committed` there this step wrote."""
        return ours(self.kept(), committed)

    def before(self, committed: Mapping[str, Positions]) -> dict[str, Positions]:
        """`committed` as it was before this step."""
        return before(self.kept(), committed)

    def write(self, moves: Sequence[PositionMove], committed: Mapping[str, Positions]) -> None:
        """Commit `moves`; `committed`: what is there now. Raises what `commit.write` does."""
        decided.write(self._run_dir, self._target.alias, merged(self.kept(), moves), self._use)
        group_writing.write(self._target, moves, committed)

    def put_back(self) -> None:
        """Restore what was there before. Safe to repeat. Raises `GroupNotEmpty`, and what the cluster answers."""
        if moves := self.kept():
            positions = group_writing.committed_positions(self._target, {move.group for move in moves})
            others = of_others(moves, positions)
            group_writing.put_back(self._target, [move for move in moves if move.group not in others])
            self.forget()

    def forget(self) -> None:
        """The applications have moved, so that the positions stay."""
        decided.forget(self._run_dir, self._target.alias, self._use)


def left_by(run_dir: Path, target: str) -> tuple[PositionMove, ...]:
    """What steps of a run wrote on `target`, or may have, and neither put back nor moved applications to. Raises `UsageError`
    for a file that was changed."""
    ending = f".{target}.json"
    names = [path.name for path in (run_dir / DETAILS).glob("positions.tried.*.json") if path.name.endswith(ending)]
    uses = sorted(name.removeprefix("positions.").removesuffix(ending) for name in names)
    return tuple(move for use in uses for move in decided.read(run_dir, target, use) or ())


def of_others(kept: Sequence[PositionMove], committed: GroupPositions) -> frozenset[str]:
    """The groups with a position that is neither what was written nor what was there before. Pure."""
    found = set()
    for move in kept:
        now = committed.get(move.group, {}).get(move.target)
        if (None if now is None else now.offset) not in (move.offset, move.before):
            found.add(move.group)
    return frozenset(found)


def ours(kept: Sequence[PositionMove], committed: GroupPositions) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    """Of what is `committed`, what was written as `kept` says. Pure."""
    found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for move in kept:
        now = committed.get(move.group, {}).get(move.target)
        if now is not None and now.offset == move.offset:
            found.setdefault(move.group, {})[move.target] = now
    return found


def before(kept: Sequence[PositionMove], committed: Mapping[str, Positions]) -> dict[str, Positions]:
    """`committed` with what was written as `kept` says set back. Pure."""
    found = {group: dict(positions) for group, positions in committed.items()}
    written = ours(kept, committed)
    for move in kept:
        if move.target not in written.get(move.group, {}):
            continue
        if move.before is None:
            del found[move.group][move.target]
        else:
            found[move.group][move.target] = CommittedOffset(move.before, move.before_metadata)
    return dict(found)


def merged(kept: Sequence[PositionMove], moves: Sequence[PositionMove]) -> tuple[PositionMove, ...]:
    """`moves` beside what was `kept` of earlier tries: where one found what an earlier one had written, that one's `before`
    stays. Pure."""
    found = {(move.group, move.target): move for move in kept}
    for move in moves:
        if move.offset is None:
            continue
        first = found.get((move.group, move.target))
        if first is not None and move.before in (first.offset, first.before):
            move = replace(move, before=first.before, before_metadata=first.before_metadata)
        found[move.group, move.target] = move
    return tuple(found.values())
