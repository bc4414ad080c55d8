"""Steps that prove a failover on a lab: the independent checker, and the audit of both clusters with Spark.

Rules: they change nothing. Spark is started while other steps run (`lab.read_locally`) and stopped after the audit; a
process that resumes the run starts another one. Results are in the run's folder and in the scorecard.
"""

import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from drlib import clock
from drlib.drill.actions.groups import decided as positions
from drlib.drill.run import planning
from drlib.drill.scenarios.failover.applications import PARTITIONS
from drlib.drill.scenarios.failover.proof import Proof
from drlib.drill.scenarios.failover.round_trip import keep_ends
from drlib.drill.step.action import Changes, Evidence, ReadOnlyAction
from drlib.drill.step.step_output import ScorecardPart
from drlib.drill.testbed.failover_step import FailoverStep
from drlib.drill.testbed.failover_testbed import GROUPS
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.workload.topics import log_ends
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.scorecard import Mark

_PROOFS: Final[dict[Path, Proof]] = {}
_LOCK: Final = threading.Lock()


class ProofAction(ReadOnlyAction, FailoverStep):
    """A step of the proof, which changes nothing."""

    @property
    def proof(self) -> Proof:
        with _LOCK:
            run_dir = self.context.run_dir
            if run_dir not in _PROOFS:
                _PROOFS[run_dir] = Proof(self.testbed)
            return _PROOFS[run_dir]

    def cluster_id(self) -> str:
        return self.lab.clusters[self.flow.target].brokers[0].spec.cluster_id


class ReadLocally(ProofAction):
    """Wait until every group has read the remote topic to its end and continues in the local one; under identical names, where
    both are one topic, until it has read what was mirrored."""

    name = "lab.read_locally"

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.proof.warm_up()
        testbed = self.testbed
        read = partial(self._reached, testbed.moved_at("flights")) if testbed.shared else self._local
        for group in GROUPS:
            condition = f"{group} has read what was mirrored" if testbed.shared else f"{group} reads the local topic"
            testbed.wait(condition, partial(read, group), 90, abort)
        at_ms = clock.now_ms()
        if testbed.shared:
            keep_ends(self.context.run_dir, log_ends(self.lab.clusters[self.flow.target], ["flights"]))
        detail = "what was mirrored is read" if testbed.shared else "the remote topic is read to its end"
        self.mark(Mark(name="groups read locally", at_ms=at_ms, detail=detail))
        self.show_progress()
        one = {"topics": "one name on both clusters: there is no other topic to change to"} if testbed.shared else {}
        return {"groups": ", ".join(GROUPS), "at_ms": at_ms, **one}

    def _reached(self, moved_at: Mapping[int, int], group: str) -> bool:
        with Cluster(self.context.cluster(self.flow.target)) as cluster:
            committed = cluster.group_offsets(group)
        at = {number: committed.get(TopicPartition("flights", number)) for number in moved_at}
        return all(end == 0 or ((own := at[n]) is not None and own.offset >= end) for n, end in moved_at.items())

    def _local(self, group: str) -> bool:
        with Cluster(self.context.cluster(self.flow.target)) as cluster:
            committed = cluster.group_offsets(group)
        return all(committed.get(TopicPartition("flights", number)) is not None for number in range(PARTITIONS))


class CheckHistories(ProofAction):
    """Judge the applications' histories against a scan of the target."""

    name = "proof.check"

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        allowed = planning.read(self.context.run_dir).drill.objectives.rpo_records
        self.show(self.proof.check(allowed))
        moves = positions.read(self.context.run_dir, self.flow.target) or ()
        part = self.proof.check_part([move.translation for move in moves])
        self.score(part)
        rpo = part.rpo
        return {
            "checks": len(part.checks),
            "rpo_records": None if rpo is None else rpo.records,
            "rpo_seconds": None if rpo is None else rpo.seconds,
        }


class AuditClusters(ProofAction):
    """Compare both clusters with Spark, once the source was started again."""

    name = "proof.audit"

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        try:
            self.show(self.proof.audit())
            part: ScorecardPart = self.proof.audit_part()
        finally:
            self.proof.close()
        self.score(part)
        return {"audited": len(part.checks), "partitions": len(part.partitions)}
