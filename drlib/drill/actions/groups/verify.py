"""Action `groups.verify`: wait until the groups consume from their new positions, and topics are written to.

Rules: a group whose position is the end of everything has nothing to read, and is not waited for. The error of a wait names
what did not happen and where to look. The moment the wait ends is the end of the RTO.
"""

import functools

from drlib.config.patterns.selection import matches
from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups.commit import TIMEOUT_S
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Patterns, Seconds, Texts
from drlib.drill.step.flow_arguments import ReadOnlyTargetAction
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Mark
from drlib.runs.waiting import wait_for


class VerifyGroups(ReadOnlyTargetAction):
    """Wait until the groups consume from their new positions, and topics are written to: the service is restored."""

    name = "groups.verify"

    groups: Patterns = (".*",)
    """Which of the moved groups have to make progress."""
    written: Texts = ()
    """Topics of the target that have to grow."""
    deadline_s: Seconds = 60
    """How long to wait for each group and topic."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        run_dir, alias = self.context.run_dir, self.flow.target
        moves = [
            m for m in positions.read(run_dir, alias) or () if matches(self.groups, m.group) and m.offset is not None
        ]
        groups = sorted({move.group for move in moves})
        if not groups:
            raise UsageError(
                "nothing can be verified",
                f"no group of {', '.join(self.groups)} was moved",
                "Translate groups before it.",
            )
        with Cluster(self.target_cluster, timeout_s=TIMEOUT_S) as cluster:
            topics = cluster.topics({*self.written, *(move.target.topic for move in moves)})
            missing = sorted(set(self.written) - topics.keys())
            if missing:
                raise UsageError(f"topics {', '.join(missing)}", f"they are not on {alias}", "Correct `written`.")
            local = [TopicPartition(t, n) for t in self.written for n in range(topics[t].partitions)]
            before = cluster.log_ends(local)
            ends = cluster.log_ends({move.target for move in moves})

            def ready(group: str) -> bool:
                """Did it read on, or is there nothing to read for it?"""
                mine = [move for move in moves if move.group == group]
                now = cluster.group_offsets(group)
                went_on = any(m.target in now and now[m.target].offset > (m.offset or 0) for m in mine)
                return went_on or all((m.offset or 0) >= ends[m.target] for m in mine)

            def grown(topic: str) -> bool:
                now = cluster.log_ends([p for p in local if p.topic == topic])
                return any(now[p] > before[p] for p in now)

            for topic in self.written:
                remedy = f"Check whether its producers follow the pointer to {alias}."
                wait_for(
                    abort, f"{topic} on {alias} is written to", functools.partial(grown, topic), self.deadline_s, remedy
                )
            for group in groups:
                remedy = f"Check whether the consumers of {group} follow the pointer to {alias}."
                wait_for(
                    abort,
                    f"{group} makes progress on {alias}",
                    functools.partial(ready, group),
                    self.deadline_s,
                    remedy,
                )
            rows: list[dict[str, Scalar]] = []
            for group in groups:
                now = cluster.group_offsets(group)
                mine = [move for move in moves if move.group == group]
                read = sum(max(0, now[m.target].offset - (m.offset or 0)) for m in mine if m.target in now)
                left = sum(max(0, ends[m.target] - now[m.target].offset) for m in mine if m.target in now)
                rows.append({"group": group, "records read on": read, "left of what was mirrored": left})
        at_ms = moments.mark(run_dir, "verify")
        rto = moments.seconds(run_dir)
        mark = Mark(name="service restored", at_ms=at_ms, detail=f"written to and consumed on {alias}")
        self.score(ScorecardPart(marks=(mark,), rto_seconds=rto if rto.total is not None else None))
        self.show(rows)
        measured: dict[str, Scalar] = {} if rto.total is None else {"rto_seconds": rto.total}
        return {"groups": len(groups), "source": self.source_state(), **measured}
