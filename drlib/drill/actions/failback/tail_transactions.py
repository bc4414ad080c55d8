"""Action `tail.transactions`: which transactions of a cluster that came back are in part, once its tail was settled.

Rules: a transaction is in part where the target has something of it, and something else is in quarantine or was left on the
source; what was recovered is on the target, in another topic. With everything recovered, or nothing left over, none is in part,
whatever the client. Each is listed with its partitions, and with where the rest of it is. Where something was left on the
source, the groups that return read it there: where these transactions begin on the source is kept for the move home
(`before_left`), which places a group that has not read the rest before them. What is in quarantine no group reads: none is
placed for it. It holds up nothing: what cannot be read is a condition.
Not for: the decision (`drlib.mirror.transactions.tail`), settling (`unreplicated_actions`), and a source that is lost
(`transactions.list`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from drlib.config.both_ways.shared_topics import all_shared
from drlib.drill.actions.failover.transactions import KeptTransactions, Names, TransactionsAction, keep
from drlib.drill.actions.groups.rules import PositionMove, before_transactions
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.flow_arguments import Shared
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.mirror.offsets.unreplicated.find import find_unreplicated
from drlib.mirror.offsets.unreplicated.ledger import Progress, partition_key
from drlib.mirror.offsets.unreplicated.rules import PartitionTail
from drlib.mirror.offsets.unreplicated.settle import read_ledger
from drlib.mirror.transactions.find import find_transactions
from drlib.mirror.transactions.rules import FoundTransaction, Verdict
from drlib.mirror.transactions.tail import Tail, with_tail
from drlib.model import TopicPartition
from drlib.runs.abort import Abort

NONE: Final = "no transaction of the cluster that came back is in part"
IN_PART: Final = "transactions of the cluster that came back are in part"
NOT_DETERMINED: Final = "whether transactions of the cluster that came back are in part is not determined"


class ListTailTransactions(TransactionsAction):
    """List the transactions of the cluster that came back of which some records are on the target, and others were not
    recovered."""

    name = "tail.transactions"
    shared_topics = Shared.SOME
    names = Names(NONE, IN_PART, NOT_DETERMINED)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        kept = KeptTransactions()
        try:
            found = find_transactions(self.context.mirror_settings(), self.flow)
            decision = found.decision
            if decision.transactions or decision.absent or decision.older:
                tail, ends = self._tail(abort)
                found = replace(found, decision=with_tail(decision, tail))
                kept = left_on_source(found.decision.of(Verdict.PARTIAL), ends)
            if kept.firsts:
                kept = replace(kept, streams=tuple(each.application for each in self.streams(found)))
        except DrlibError as error:
            return self.unread(error, self.flow.reverse)
        keep(self.context.run_dir, self.flow.reverse, kept)
        return self.scored(found)

    def _tail(self, abort: Abort) -> tuple[dict[TopicPartition, Tail], dict[TopicPartition, int]]:
        """By source partition, where the records are that were not copied, and where those end that were left.

        Raises what a cluster says.
        """
        settings, flow = self.context.mirror_settings(), self.flow
        if all_shared(settings, flow):  # what has not crossed yet crosses by itself
            return {each: Tail.LEFT for each, offsets in self.missing(abort).items() if offsets}, {}
        found = find_unreplicated(settings, flow, wait=abort.wait)
        with Cluster(settings.clusters[flow.target]) as target:
            ledger = read_ledger(target)
        tail: dict[TopicPartition, Tail] = {}
        for part in found.partitions:
            if part.records or part.doubtful:
                topic, number = part.partition.topic, part.partition.partition
                key = partition_key(found.source_id, found.topic_ids[topic], number)
                tail[part.partition] = tail_of(part, ledger.progress.get(key))
        ends = {part.partition: part.end for part in found.partitions if tail.get(part.partition) is Tail.LEFT}
        return tail, ends


def tail_of(part: PartitionTail, progress: Progress | None) -> Tail:
    """Where the records of one partition are that were not copied. `progress`: what was settled there."""
    if progress is None or progress.next < max((each.end for each in part.stretches), default=0):
        return Tail.LEFT
    return Tail.QUARANTINED if progress.quarantined or progress.set_aside else Tail.RECOVERED


def left_on_source(partial: Iterable[FoundTransaction], ends: Mapping[TopicPartition, int]) -> KeptTransactions:
    """Where transactions begin on the source itself of which something was left there; `ends`: of what was left."""
    firsts: dict[TopicPartition, int] = {}
    rests: set[TopicPartition] = set()
    for transaction in partial:
        if left := {part.partition for part in transaction.parts if part.rest == Tail.LEFT} & ends.keys():
            rests |= left
            for part in transaction.parts:
                if part.present:
                    firsts[part.partition] = min(part.first, firsts.get(part.partition, part.first))
    return KeptTransactions(
        tuple((p.topic, p.partition, at) for p, at in sorted(firsts.items())),
        rests=tuple((p.topic, p.partition, ends[p]) for p in sorted(rests)),
    )


def before_left(moves: Sequence[PositionMove], kept: KeptTransactions) -> tuple[PositionMove, ...]:
    """`moves` with groups placed before the transactions of which they still read the rest on the cluster they return to."""
    behind = {move.group for move in moves if move.offset is not None and kept.has_rest(move.target, move.offset)}
    return tuple(
        before_transactions(move, kept.first(move.group, move.target)) if move.group in behind else move
        for move in moves
    )
