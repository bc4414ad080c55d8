"""Action `groups.verify`: observe each moved group and each topic that applications write to until it is served on the target.

Rules: a group that has no members, or nothing to read, is not observed, with the reason; it fails nothing. A group with members
and unread records that does not read, or whose members are not assigned a topic with unread records, fails the step, and so
does a topic that no producer can write to. One application never waits for another. Every group and every topic has its row,
from the first look on. A group whose coordinator does not answer is asked again now and then, so that looks at the others stay
short: by these the RTO is measured. It ends when the last application that was observed was served; where none was, or a topic
that is `written` got no record, it is not measured. Share groups are looked at last (`share_groups.served`).
Not for: judging one look (`verify_rules`).
Longer than most modules: what a watch has seen, and the rows that show it, are one.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from drlib import clock, formats
from drlib.config.patterns.selection import matches
from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups import verify_rules as rules
from drlib.drill.actions.groups.commit import TIMEOUT_S
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.actions.groups.share_groups import move as share_moves
from drlib.drill.actions.groups.share_groups.served import SharesSeen, wait_served
from drlib.drill.actions.groups.verify_rules import CHECK, GroupLook, GroupVerdict, Observed, Seen
from drlib.drill.inventory.rules import GROUPS_OF_DRLIB
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Patterns, Seconds, Texts
from drlib.drill.step.flow_arguments import ReadOnlyTargetAction, Shared
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import DrlibError, NoLeader, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.admin.descriptions import GroupDescription, Range
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.admin.group_offsets import Positions
from drlib.kafka.net.cluster_client import TopicMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition
from drlib.outgoing.terminal import show
from drlib.runs.abort import Abort
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Mark, RtoSeconds
from drlib.runs.waiting import LOOK_S

_MARKERS: Final = 16  # offsets looked through for the last record: markers have offsets too
_DESCRIBE_S: Final = 0.5
_SAY_S: Final = 10.0
_ANSWER_S: Final = 5.0  # for the coordinators of all groups, at once
_AGAIN_S: Final = 10.0  # between two questions to those that did not answer


class VerifyGroups(ReadOnlyTargetAction):
    """Observe that the moved groups read on from their new positions, and that topics are written to."""

    name = "groups.verify"
    shared_topics = Shared.SOME

    groups: Patterns = (".*",)
    """Which of the moved groups have to be served."""
    written: Texts = ()
    """Topics of the target that applications write to."""
    deadline_s: Seconds = 60
    """How long groups that have members and records to read, and producers of the written topics, may take."""
    members_s: Seconds = 30
    """How long to wait for members of groups that have records to read, or had members before, such as those moved by hand;
    0: not."""
    not_read: Patterns = ()
    """Topics that no group has to read, although it has a position and unread records there."""

    @property
    def needs_before(self) -> tuple[str, ...]:
        return () if self.written else positions.WRITERS

    def nothing_before(self) -> UsageError:
        what = f"no group of {', '.join(self.groups)} was moved"
        return UsageError("nothing can be verified", what, "Put groups.translate with these groups before this step.")

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `Unreachable` naming each application that is not served and why, `UsageError` for an unusable topic."""
        run_dir, alias = self.context.run_dir, self.flow.target
        decided = positions.read(run_dir, alias)
        moves = [m for m in decided or () if matches(self.groups, m.group)]
        kept = share_moves.kept(run_dir, alias, "groups") or ()
        shares = [m for m in kept if m.moved and matches(self.groups, m.group)]
        began = time.monotonic()
        if not decided and not self.written and not shares:
            known = "no position of any group was known"
            return self._nothing_known(known if decided is not None else "an earlier run moved the applications")
        if not moves and not self.written and not shares:
            raise self.nothing_before()
        with Cluster(self.target_cluster, timeout_s=TIMEOUT_S) as cluster:
            watch = Watch(self, cluster, moves)
            self._refuse_unwritable(cluster)
            watch.begin()
            self.show(watch.rows())
            watch.say_by_hand()
            while not watch.look():
                self.show(watch.rows())
                abort.wait(max(LOOK_S, 3 * watch.took_s))
        unwritable = self.unwritable() if watch.unwritten else {}
        rto = self._rto(watch, unwritable)
        left_s = max(0.0, self.members_s - (time.monotonic() - began))
        watch.shares = wait_served(self.target_cluster, shares, left_s, abort)
        self.show(watch.rows())
        failed = {name: verdict.detail for name, verdict in watch.verdicts.items() if verdict.seen.failed} | unwritable
        self._score(watch, failed, rto)
        if failed:
            shown = [f"{name}: {why}" for name, why in sorted(failed.items())]
            more = f"; and {len(shown) - 5} more" if len(shown) > 5 else ""
            raise Unreachable(
                f"{len(failed)} of {len(watch.applications)} applications are not served by {alias}",
                "; ".join(shown[:5]) + more,
                f"Check whether they follow the pointer to {alias}, and which topics they subscribe to.",
            )
        measured: dict[str, Scalar] = {"rto_why": rto.why} if rto.total is None else {"rto_seconds": rto.total}
        if rto.at_least is not None:
            measured["rto_at_least"] = rto.at_least
        return {
            "groups": len(watch.verdicts),
            "served": len(watch.served),
            "not_observed": "; ".join(f"{name}: {why}" for name, why in watch.not_observed().items()),
            "other_groups": ", ".join(watch.others),
            **(
                {"share_groups": len(watch.shares.verdicts), "share_groups_served": len(watch.shares.served)}
                if shares
                else {}
            ),
            "source": self.source_state(),
            **measured,
        }

    def _nothing_known(self, reason: str) -> Evidence:
        """No group was moved, and no topic has to be written to: there is nothing to look at, and no pass."""
        why = f"not checked: {reason}"
        check = Check(name=CHECK, verdict=Verdict.CONDITIONS, evidence=why)
        self.score(ScorecardPart(checks=(check,)))
        return {"groups": 0, "served": 0, "not_observed": why, "source": self.source_state(), "rto_why": why}

    def _refuse_unwritable(self, cluster: Cluster) -> None:
        """Raises `UsageError` at once for topics that no producer can write to."""
        if reasons := self.unwritable():
            raise UsageError(
                f"no producer can write to {', '.join(reasons)} on {self.flow.target}",
                "; ".join(f"{name}: {why}" for name, why in reasons.items()),
                "Create them there with their settings on the source, or correct `written`.",
            )

    def unwritable(self) -> dict[str, str]:
        """By written topic: why no producer can write to all of it."""
        if not self.written:
            return {}
        found = blocking(_metadata(self.target_cluster, self.written))
        existing = [name for name in self.written if name in found and not found[name].error_code]
        with Cluster(self.target_cluster, timeout_s=TIMEOUT_S) as cluster:
            config = cluster.topic_config(existing, inherited=True)
        least = {name: int(values.get("min.insync.replicas", "1")) for name, values in config.items()}
        return rules.unwritable(self.written, found, least)

    def _rto(self, watch: "Watch", unwritable: Mapping[str, str]) -> RtoSeconds:
        """Mark the end of the RTO where it was observed."""
        run_dir = self.context.run_dir
        missing = [*watch.unwritten, *(n for n, v in watch.verdicts.items() if v.seen.failed), *unwritable]
        if missing or not watch.served:
            rto = moments.seconds(run_dir)
            if rto.total is not None:  # an earlier attempt of this step observed it
                return rto
            why = f"{', '.join(missing[:5])} not observed to be served" if missing else moments.NOT_SERVED
            return rto.model_copy(update={"why": why})
        after = max(seen.after_ms for seen in watch.served.values())
        by = max(seen.by_ms for seen in watch.served.values())
        moments.mark(
            run_dir, "verify", moment=moments.Moment(earliest_ms=after, latest_ms=by, basis="the last first record")
        )
        return moments.seconds(run_dir)

    def _score(self, watch: "Watch", failed: Mapping[str, str], rto: RtoSeconds) -> None:
        marks: tuple[Mark, ...] = ()
        if (at_ms := moments.at(self.context.run_dir, "verify")) is not None:
            marks = (Mark(name="service restored", at_ms=at_ms, detail=f"on {self.flow.target}: {watch.slowest()}"),)
        unseen = [f"{name}: {why}" for name, why in watch.not_observed().items()]
        shares = watch.shares
        served, all_of_them = len(watch.served) + len(shares.served), len(watch.applications) + len(shares.verdicts)
        check = rules.served_check(failed, unseen, served, all_of_them)
        self.score(ScorecardPart(checks=(check,), marks=marks, rto_seconds=rto))


class Watch:
    """What is seen of every application, look by look. `also`: groups that were not moved by this run. `local`: topics that
    producers write to there, besides the `written` ones."""

    def __init__(
        self,
        action: VerifyGroups,
        cluster: Cluster,
        moves: Sequence[PositionMove],
        also: Iterable[str] = (),
        local: Iterable[str] = (),
    ) -> None:
        self._action, self._cluster = action, cluster
        self._local = {*local, *action.written}
        self._moves = moves
        self.groups = sorted({*(move.group for move in moves), *also})
        self._in_use = positions.in_use(action.context.run_dir, action.flow.target)
        self.verdicts: dict[str, GroupVerdict] = {}
        self.served: dict[str, Observed] = {}
        self.others: tuple[str, ...] = ()
        self.took_s = 0.0
        self._begins: dict[str, dict[TopicPartition, int]] = {}
        self._leaderless: dict[str, str] = {}
        self._descriptions: dict[str, GroupDescription | DrlibError] = {}
        self._settled_since: dict[str, float] = {}
        self._unanswered: dict[str, DrlibError] = {}
        self._again_at = float("-inf")
        self._described_at = self._said_at = float("-inf")
        self._last_records: dict[tuple[TopicPartition, int], int] = {}
        self._written: dict[TopicPartition, int] = {}
        self._read: dict[str, Mapping[TopicPartition, int]] = {}
        self._ends: dict[TopicPartition, int] = {}
        self.shares = SharesSeen({})
        self._began = time.monotonic()
        self._looked_ms = clock.now_ms()

    @property
    def applications(self) -> list[str]:
        """Groups, and topics that are written to."""
        return [*self.groups, *(topic_row(name) for name in self._action.written)]

    @property
    def unwritten(self) -> list[str]:
        return [topic_row(name) for name in self._action.written if topic_row(name) not in self.served]

    def begin(self) -> None:
        """Where every group and every written topic begins. Raises what the cluster answers."""
        action, cluster = self._action, self._cluster
        existing = cluster.topics(self._local)
        local = {
            t: [TopicPartition(t, n) for n in range(each.partitions) if each.is_led(n)] for t, each in existing.items()
        }
        ends = cluster.log_ends([p for each in local.values() for p in each])
        self._written = {p: end for p, end in ends.items() if p.topic in action.written}
        committed = self._committed()
        for group in self.groups:
            answer = committed[group]
            now = {} if isinstance(answer, DrlibError) else {p: at.offset for p, at in answer.items()}
            moved = rules.moved_to(self._moves, group)
            home = {m.source.topic for m in self._moves if m.group == group} & local.keys()
            new = {p: now.get(p, ends[p]) for topic in home for p in local[topic]}
            begins = {**rules.own_positions(self._moves, group, now), **new, **moved}
            self._begins[group] = {p: at for p, at in begins.items() if not matches(action.not_read, p.topic)}
        led = cluster.led({m.target for m in self._moves} | {p for begins in self._begins.values() for p in begins})
        for group, begins in self._begins.items():
            self._begins[group] = {p: at for p, at in begins.items() if led.get(p)}
        alias = action.flow.target
        self._leaderless = {str(p): NoLeader(p, alias).why for p, is_led in sorted(led.items()) if not is_led}
        listed = [g.group for g in cluster.groups() if g.state not in rules.WITHOUT_MEMBERS]
        self.others = tuple(g for g in listed if g not in self._begins and not g.startswith(GROUPS_OF_DRLIB))
        act_ms = moments.at(action.context.run_dir, "act")
        self._looked_ms = clock.now_ms() if act_ms is None else min(act_ms, clock.now_ms())
        self.verdicts = {group: GroupVerdict(Seen.UNKNOWN, "not looked at yet") for group in self.groups}

    def look(self) -> bool:
        """Look once more at what is not served yet; True when the watch has ended. Raises after the deadline."""
        action, began_ms, began = self._action, clock.now_ms(), time.monotonic()
        waited_s, again_at = began - self._began, self._again_at
        try:
            committed = self._committed()
            self._describe([group for group in self.groups if not isinstance(committed[group], DrlibError)])
            partitions = {p for begins in self._begins.values() for p in begins}
            self._ends = self._cluster.log_ends(partitions | self._written.keys())
            by_ms = clock.now_ms()
            for group in self.groups:
                answer = committed[group]
                if not isinstance(answer, DrlibError):
                    self._read[group] = {p: at.offset for p, at in answer.items()}
            ends = self._record_ends()
        except DrlibError as error:  # such as a log whose first records expire while its last ones are looked for
            if waited_s > action.deadline_s or (isinstance(error, ClusterRefused) and error.unauthorized):
                raise
            return False
        for group in self.groups:
            answer = committed[group]
            verdict = rules.judge(
                self._begins[group], ends, self._look_at(group, str(answer) if isinstance(answer, DrlibError) else "")
            )
            if verdict.read_on:
                self._note(group, by_ms, verdict.detail)
            self.verdicts[group] = verdict
        for topic in action.written:
            if any(self._ends[p] > end for p, end in self._written.items() if p.topic == topic):
                self._note(topic_row(topic), by_ms, "it is written to")
        self._looked_ms = began_ms
        if self._again_at == again_at:  # what did not answer was not waited for
            self.took_s = time.monotonic() - began
        seen = {group: verdict.seen for group, verdict in self.verdicts.items()}
        over = rules.done(seen, self.unwritten, waited_s, action.members_s, action.deadline_s)
        self._say_waiting(over)
        return over

    def _look_at(self, group: str, error: str) -> GroupLook:
        described = self._descriptions.get(group)
        if isinstance(described, DrlibError):
            return GroupLook({}, None, error=str(described))
        since = self._settled_since.get(group)
        settled_s = 0.0 if since is None else time.monotonic() - since
        return GroupLook(self._read.get(group, {}), described, settled_s, error, group in self._in_use)

    def _committed(self) -> dict[str, Positions | DrlibError]:
        """Where the groups are; those that did not answer last are asked again when it is time."""
        again = time.monotonic() >= self._again_at
        groups = [group for group in self.groups if again or group not in self._unanswered]
        found = self._cluster.within(_ANSWER_S).committed(groups)
        if silent := {group: answer for group, answer in found.items() if isinstance(answer, DrlibError)}:
            self._again_at = time.monotonic() + _AGAIN_S
        self._unanswered = {**{g: why for g, why in self._unanswered.items() if g not in found}, **silent}
        return {**found, **self._unanswered}

    def _describe(self, groups: Collection[str]) -> None:
        """The members of `groups`; the coordinators of the others do not answer."""
        now = time.monotonic()
        if now - self._described_at < _DESCRIBE_S:
            return
        found = self._cluster.within(_ANSWER_S).group_descriptions(groups)
        for group, described in found.items():
            before = self._descriptions.get(group)
            same = not isinstance(described, DrlibError) and not isinstance(before, DrlibError)
            if same and rules.settled(before, described):  # type: ignore[arg-type]
                self._settled_since.setdefault(group, self._described_at)
            else:
                self._settled_since.pop(group, None)
        self._descriptions, self._described_at = found, now

    def _record_ends(self) -> dict[TopicPartition, int]:
        """The offset after the last record of each log; where a position is far from its log's end, the log's end."""
        ends = dict(self._ends)
        near: dict[TopicPartition, Range] = {}
        for group, begins in self._begins.items():
            read = self._read.get(group, {})
            for p, begin in begins.items():
                gap = ends[p] - read.get(p, begin)
                if 0 < gap <= _MARKERS and (p, ends[p]) not in self._last_records:
                    near[p] = Range(ends[p] - _MARKERS, ends[p])
        if near:
            starts = self._cluster.log_starts(near)
            near = {p: Range(max(starts[p], r.start), r.end) for p, r in near.items()}
            found = {p: r.start for p, r in near.items()}
            for record in self._cluster.read(near):
                found[record.partition] = record.offset + 1
            self._last_records.update({(p, ends[p]): found[p] for p in near})
        return {p: self._last_records.get((p, end), end) for p, end in ends.items()}

    def _note(self, name: str, by_ms: int, how: str) -> None:
        if name not in self.served:
            self.served[name] = Observed(min(self._looked_ms, by_ms), by_ms)
            show(f"{formats.clock(by_ms)} UTC  {formats.one_line(name)} is served: {how}")

    # -- what is shown ----------------------------------------------------------------------------------------------

    def not_observed(self) -> dict[str, str]:
        """Applications, and partitions of groups, that were not seen to be served, and that fail nothing; and why."""
        groups = {
            name: verdict.detail
            for name, verdict in self.verdicts.items()
            if name not in self.served and not verdict.seen.failed
        }
        unwritten = dict.fromkeys(self.unwritten, "no record was written to it while it was watched")
        return groups | unwritten | self.shares.not_observed | self._leaderless

    def slowest(self) -> str:
        """The application that was served last."""
        return max(self.served, key=lambda name: self.served[name].by_ms, default="")

    def say_by_hand(self) -> None:
        """Say for every group where it continues: who does not follow the pointer is moved by hand."""
        address = ",".join(self._action.target_cluster.bootstrap_servers)
        for group in self.groups:
            topics = ", ".join(sorted({p.topic for p in self._begins[group]})) or "none of its topics is there"
            show(f"group {formats.one_line(group)}: {formats.one_line(topics)} at {address}")

    def _say_waiting(self, over: bool) -> None:
        now = time.monotonic()
        if over or now - max(self._said_at, self._began) < _SAY_S:
            return
        self._said_at = now
        waiting = [*self.unwritten, *(g for g in self.groups if g not in self.served)]
        show(f"after {now - self._began:.0f} s: waiting for {', '.join(map(formats.one_line, waiting[:5]))}")

    def rows(self) -> list[dict[str, Scalar]]:
        """One row for each group, each written topic, each topic that groups read, and each other group with members."""
        rows = [self._row("group", group, self.verdicts[group]) for group in self.groups]
        for group, verdict in self.shares.verdicts.items():
            row = self._row("share group", group, verdict)
            rows.append(row if verdict.seen is not Seen.SERVED else {**row, "seen": Seen.SERVED.value})
        for name in self._action.written:
            there = topic_row(name) in self.served
            detail = "it is written to" if there else "no record was written to it while it was watched"
            verdict = GroupVerdict(Seen.SERVED if there else Seen.WAITING, detail)
            rows.append(self._row("written topic", topic_row(name), verdict))
        for topic in sorted({move.target.topic for move in self._moves}):
            rows.append(self._topic_row(topic))
        for group in self.others:
            other = GroupVerdict(Seen.SERVED, "it has members there and was not moved by this run")
            rows.append({**self._row("other group", group, other), "seen": "in use"})
        return rows

    def _row(self, kind: str, name: str, verdict: GroupVerdict) -> dict[str, Scalar]:
        served, fault = self.served.get(name), moments.at(self._action.context.run_dir, "fault")
        state = verdict.seen.value if verdict.seen.failed or served else f"not observed: {verdict.seen.value}"
        return {
            "kind": kind,
            "name": name,
            "seen": state,
            "first record seen, UTC": None if served is None else formats.clock(served.by_ms),
            "seconds after the fault": None if served is None or fault is None else max(0, served.by_ms - fault) / 1000,
            "records read on": verdict.read_on,
            "unread": verdict.unread,
            "detail": verdict.detail,
        }

    def _topic_row(self, topic: str) -> dict[str, Scalar]:
        reading = {g: b for g, b in self._begins.items() if any(p.topic == topic for p in b)}
        on = left = 0
        for group, begins in reading.items():
            for p, begin in begins.items():
                if p.topic == topic:
                    now = self._read.get(group, {}).get(p, begin)
                    on, left = on + max(0, now - begin), left + max(0, self._ends.get(p, now) - now)
        missed = [g for g in reading if topic in self.verdicts[g].missed]
        detail = f"groups: {', '.join(sorted(reading)) or 'none'}" + (
            f"; not read by {', '.join(missed)}" if missed else ""
        )
        seen = Seen.MISSES if missed else Seen.SERVED if on else Seen.WAITING if left else Seen.IDLE
        word = "read" if seen is Seen.SERVED else "not read" if seen is Seen.WAITING else seen.value
        return {**self._row("topic", topic, GroupVerdict(seen, detail, on, left)), "seen": word}


def topic_row(name: str) -> str:
    """What an application that writes to topic `name` is called: only the topic is known of it."""
    return f"producers of {name}"


async def _metadata(cluster: ClusterSettings, topics: Sequence[str]) -> Mapping[str, TopicMetadata]:
    async with wire_client(cluster, client_id="drlib-verify", timeout_s=TIMEOUT_S) as client:
        return (await client.metadata(list(topics))).topics
