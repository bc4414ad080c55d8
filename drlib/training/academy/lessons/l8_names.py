"""L8, identical topic names: both clusters write one topic, which is mirrored in both directions; the logs differ in order.

Rules: the orders differ because the worker was down while both clusters wrote. Applications are real: billing is a Java
consumer, shipping a Python one; what they read is in their own histories. The fault is that of L3: the worker is killed,
LEFT acknowledges more, LEFT is killed. A position is judged by what was read before and after it, not by the map. What
prefixed names would have done is computed from the same logs, as each of their topics keeps the order of its source.
Not for: moving home, which `drlib failback` does.
Longer than most modules: two predictions, two applications, and what both clusters write.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final

import plotly.graph_objects as go

from drlib.errors import UsageError
from drlib.kafka.admin.descriptions import Record
from drlib.lab.processes import wait_until
from drlib.lab.workload.mirrors import partition_statuses
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions, translate_groups
from drlib.runs.table import Table
from drlib.training.academy import two_logs
from drlib.training.academy.applications import AGAIN, LANGUAGES, Application, ApplicationsLesson
from drlib.training.academy.lesson import BREAK, CheckResult
from drlib.training.academy.move_lesson import MoveLesson
from drlib.training.academy.pictures import Stretch, logs
from drlib.training.academy.points import Teaching
from drlib.training.academy.testbed import FORWARD, order_of

BEGUN: Final = "begun"
APART: Final = "apart"
TRAFFIC: Final = "traffic"
RETURN: Final = "return"
BACK: Final = FORWARD.reverse
RIGHTS: Final = 1000  # the orders of RIGHT's shops are numbered from here on
EARLY: Final = range(RIGHTS, RIGHTS + 60)  # written on RIGHT, and mirrored before the worker is stopped
LEFTS: Final = range(200)  # written on LEFT while it is down
LATER: Final = range(EARLY.stop, EARLY.stop + 70)  # written on RIGHT while it is down
TAIL: Final = range(LEFTS.stop, LEFTS.stop + 60)  # acknowledged by LEFT after the worker was killed
NEWEST: Final = range(LATER.stop, LATER.stop + 60)  # written on RIGHT after that
JOINED: Final = frozenset((*EARLY, *LEFTS, *LATER))
READ: Final = {"billing": frozenset((*EARLY, *LEFTS)), "shipping": JOINED}  # by each application, on LEFT
_SETTLED_S: Final = 20.0


class IdenticalTopicNames(ApplicationsLesson, MoveLesson):
    key = "L8"
    title = "Identical topic names"
    first = (TRAFFIC, "lesson.traffic()")
    teaching = Teaching(
        high="RIGHT's log has orders before that one which billing has not read: it would skip them.",
        low="That order billing has read, or RIGHT does not have it: the first unread one counts in the order of RIGHT's log, "
        "not of LEFT's.",
        pending="your second prediction is recorded",
    )
    keeps_names = True
    hints = (
        "RIGHT's log has the same orders as LEFT's in another order. An application continues at the first one that it has not "
        "read: then nothing is skipped.",
        "lesson.translate() asks RIGHT only, and gives the offsets for lesson.commit(...). Applications are started on the "
        "cluster that the pointer names. LEFT comes back last.",
        "lesson.commit({'billing': ..., 'shipping': ...}) with the offsets of lesson.translate(); then drlib.publish_pointer("
        "lesson.file, 'RIGHT', lesson.application, topic=lesson.pointer_topic, timeout_s=4), lesson.start_applications(), "
        "lesson.start_left().",
    )
    claims = (
        "billing and shipping have read every order that RIGHT has",
        "they read none again but those behind the first order that they had not read",
        "LEFT is back: both clusters have every order once, and the late ones were read on RIGHT",
    )

    def traffic(self) -> Table:
        """Let both clusters write orders to one topic, apart for a while; let the applications read on LEFT."""
        self.step(TRAFFIC, self._traffic)
        note = (
            f"Orders from {RIGHTS} on were written by RIGHT's shops. billing (Java) has read LEFT's log to order {LEFTS[-1]}, "
            f"shipping (Python) to its end."
        )
        return self._logs_table("One topic, two logs", note)

    def translate(self) -> Table:
        """Show the applications' positions on LEFT and their translation; while LEFT is down, from what RIGHT knows alone."""
        if not self.has_done(AGAIN):
            return self._second_missing()
        alive = self.testbed.lab.clusters["LEFT"].alive
        names = {each.group: each.short for each in self._applications}
        translated = translate_groups(self.testbed.settings, FORWARD, list(names), source_alive=alive)
        rows = [
            {
                "application": names[item.group],
                "on LEFT": item.source_offset,
                "on RIGHT": item.translation.offset,
                "meaning": item.translation.kind.value,
                "read again, at most": item.translation.records,
            }
            for item in sorted(translated, key=lambda item: item.group)
        ]
        note = "The map of RIGHT->LEFT lies on LEFT. Without it the number is an upper bound, and the offset skips nothing."
        return Table("Positions, translated", rows, note="" if alive else note)

    def commit(self, positions: Mapping[str, int]) -> Table:
        """Commit offsets on RIGHT, by application. Both have to be stopped. What they read on RIGHT is counted from then on."""
        if not self.has_done(AGAIN):
            return self._second_missing()
        if unknown := [name for name in positions if name not in READ]:
            raise UsageError(
                f"there is no application {', '.join(map(str, unknown))}",
                f"there are {' and '.join(READ)}",
                "Call lesson.commit({'billing': ..., 'shipping': ...}).",
            )
        if running := [each.short for each in self._applications if each.runs]:
            raise UsageError(
                f"{' and '.join(running)} cannot be moved",
                "offsets of a group are committed from outside only while it has no members",
                "Run lesson.stop_applications() first.",
            )
        for each in self._applications:
            if each.short in positions:
                self.testbed.commit("RIGHT", each.group, {self._partition: positions[each.short]})
                each.forget("RIGHT")
        return self.fault_state()

    def start_applications(self) -> Table:
        """Start billing and shipping on the cluster that the pointer names, and wait until they are at the end of its log."""
        if not self.has_done(AGAIN):
            return self._second_missing()
        pointer = self.pointer()
        if pointer is None or pointer.active != "RIGHT":
            raise UsageError(
                "the applications were not started",
                f"their start script asks the pointer, which names {'no cluster' if pointer is None else pointer.active}",
                "Publish that RIGHT is active: drlib.publish_pointer(lesson.file, 'RIGHT', ...).",
            )
        for each in self._applications:
            each.start("RIGHT", self.topic)
        self._wait_read("RIGHT", *self._applications)
        return self.fault_state()

    def stop_applications(self) -> Table:
        """Stop both, for another try: commit their offsets again, then start them."""
        self.require(BREAK, "lesson.break_it()")
        for each in self._applications:
            each.stop()
        return self.fault_state()

    def start_left(self) -> Table:
        """Start LEFT and the mirror again, and wait until each cluster has the orders of the other one."""
        if not self.has_done(AGAIN):
            return self._second_missing()
        self.step(RETURN, self._return)
        if running := [each for each in self._applications if each.runs]:
            self._wait_read("RIGHT", *running)
        return self._logs_table(
            "Both logs, merged", "What crossed late lies behind newer orders. Nothing was settled by hand."
        )

    def question(self) -> str:
        return (
            f"The worker is killed, LEFT acknowledges {len(TAIL)} more orders, then LEFT is killed; RIGHT's shops write on. "
            f"billing has read LEFT's log up to order {LEFTS[-1]}. Which order does it have to read next on RIGHT, so that it "
            "skips none and reads as few again as possible?"
        )

    def reference_answer(self) -> str:
        return str(two_logs.first_unread(self._numbers("RIGHT"), READ["billing"]))

    def question_again(self) -> str:
        return (
            "billing moves to RIGHT; later LEFT is started again, and the mirror copies in both directions. How many orders "
            "does billing read on RIGHT that it has read on LEFT before?"
        )

    def reference_again(self) -> str:
        return str(self._behind("billing"))

    def measured(self) -> float | None:
        """The first order of RIGHT's log that billing had not read on LEFT; it would help with the second prediction."""
        if not self.has_done(AGAIN):
            return None
        return two_logs.first_unread(self._numbers("RIGHT"), READ["billing"])

    def show_truth(self) -> Table:
        if not self.has_done(AGAIN):
            return self._second_missing()
        log = self._numbers("RIGHT")
        following, behind = two_logs.first_unread(log, READ["billing"]), self._behind("billing")
        own = two_logs.first_unread([number for number in log if _origin(number) == "RIGHT"], READ["billing"])
        read = self._read_on("RIGHT", "billing")
        measured = two_logs.repeated(read, READ["billing"])
        rows: list[dict[str, object]] = [
            {"what": "billing subscribes to", "identical names": "orders", "prefixed names": "orders and LEFT.orders"},
            {
                "what": "it continues on RIGHT with",
                "identical names": f"order {following}",
                "prefixed names": f"order {own}; LEFT's are read",
            },
            {
                "what": "orders that it reads again",
                "identical names": f"{len(measured)}, by its history" if read else f"{behind}, when it is started",
                "prefixed names": str(two_logs.read_again_apart(log, READ["billing"], _origin)),
            },
            {
                "what": f"LEFT's orders {TAIL[0]} to {TAIL[-1]}",
                "identical names": "cross by themselves, behind newer ones",
                "prefixed names": "wait on LEFT for a failback (L4)",
            },
        ]
        note = (
            f"Your second prediction was {self.numbers['again']}, and it is {behind}: "
            f"{_difference(self.numbers['again'], behind)}"
        )
        return Table("Where billing continues, and what that costs", rows, note=note)

    def inject_fault(self) -> Mapping[str, int]:
        left = self.testbed.lab.clusters["LEFT"]
        self.kill_worker(self.testbed.mirror())
        if left.alive:
            self.testbed.write_missing("LEFT", self.topic, TAIL)
            self.kill_cluster("LEFT")
        self.testbed.write_missing("RIGHT", self.topic, NEWEST)
        return {}

    def fault_state(self) -> Table:
        pointer = self.pointer()
        rows: list[dict[str, object]] = [
            {"what": "LEFT", "state": "runs" if self.testbed.lab.clusters["LEFT"].alive else "was killed (SIGKILL)"},
            {"what": "the pointer names", "state": "no cluster" if pointer is None else pointer.active},
        ]
        for each in self._applications:
            offset = self.testbed.positions("RIGHT", each.group).get(self._partition)
            state = "runs on RIGHT" if each.runs else "is stopped"
            at = "no committed offset on RIGHT" if offset is None else f"committed offset {offset} on RIGHT"
            rows.append({"what": f"{each.short} ({LANGUAGES[each.family]})", "state": f"{state}, {at}"})
        return Table("Current state", rows, note="RIGHT's shops write on: to them nothing has happened.")

    def apply_reference(self) -> None:
        self.predict_again(self._behind("billing"))
        if not all(self._application(name).runs for name in READ):
            self.stop_applications()
            self.commit({str(row["application"]): int(str(row["on RIGHT"])) for row in self.translate().rows})
            self.point_at("RIGHT")
            self.start_applications()
        self.start_left()

    def verify(self, number: int) -> CheckResult:
        return (self._check_read, self._check_again, self._check_merged)[number - 1]()

    def stop_actions(self) -> tuple[Callable[[], None], ...]:
        return (self.testbed.stop_mirror, *(each.stop for each in self._applications))

    def figure(self) -> go.Figure:
        drawn = {}
        for alias in self._serving:
            log = self._numbers(alias)
            known = alias == "RIGHT" and self.has_done(AGAIN)  # before that it would be the answer
            again = two_logs.read_and_behind(log, READ["billing"]) if known else ()
            drawn[f"{alias}'s log"] = [
                Stretch(f"{part[0]}–{part[-1]}", len(part), _origin(part[0]), part[0] in again)
                for part in two_logs.stretches(log, again)
            ]
        return logs(
            "Orders in the order of each log", drawn, "orders", "first written on", "billing reads it again on RIGHT"
        )

    # -- the clusters --------------------------------------------------------------------------------------------------

    @property
    def _applications(self) -> tuple[Application, ...]:
        return tuple(self._application(name) for name in READ)

    @property
    def _serving(self) -> list[str]:
        return [alias for alias in ("LEFT", "RIGHT") if self.testbed.lab.clusters[alias].alive]

    def _traffic(self) -> None:
        for each in self._applications:
            each.require()
        self.step(BEGUN, self._begin)
        self.step(APART, self._write_apart)
        testbed = self.testbed
        testbed.start_mirror()
        self._wait_both(JOINED)
        shipping = self._application("shipping")
        shipping.start("LEFT", self.topic)
        self._wait_read("LEFT", shipping)
        shipping.stop()
        testbed.wait("the applications' checkpoints are on RIGHT", self._checkpoints_are_there)
        self.point_at("LEFT")

    def _begin(self) -> None:
        """Start the mirror before anything is written, as what a topic holds before that has no known origin."""
        testbed = self.testbed
        for alias in ("LEFT", "RIGHT"):
            testbed.create_topic(alias, self.topic, 1)
        testbed.start_mirror()
        testbed.wait("both directions copy the topic", self._both_flows_copy)
        testbed.write_missing("RIGHT", self.topic, EARLY)
        self._wait_both(EARLY)
        self.stop_worker()

    def _write_apart(self) -> None:
        """Both clusters write while the worker is down; billing reads what LEFT has."""
        testbed, billing = self.testbed, self._application("billing")
        testbed.write_missing("LEFT", self.topic, LEFTS)
        testbed.write_missing("RIGHT", self.topic, LATER)
        billing.start("LEFT", self.topic)
        self._wait_read("LEFT", billing)
        billing.stop()

    def _return(self) -> None:
        left = self.testbed.lab.clusters["LEFT"]
        if not left.alive:
            left.restart()
        if not self.testbed.mirror().runs:
            for flow in (FORWARD, BACK):
                self.testbed.wait_no_worker(flow)
        self.testbed.start_mirror()
        self._wait_both((*JOINED, *TAIL, *NEWEST))

    def _both_flows_copy(self) -> bool:
        status = self.testbed.mirror().status()
        return all(self._partition in partition_statuses(status, flow) for flow in (FORWARD, BACK))

    def _wait_both(self, orders: Collection[int]) -> None:
        wanted = set(orders)
        what = f"both clusters have {len(wanted)} orders"
        self.testbed.wait(what, lambda: all(wanted <= {*self._numbers(alias)} for alias in ("LEFT", "RIGHT")))

    def _wait_read(self, alias: str, *applications: Application) -> None:
        """Wait until they have committed behind the last order of the log."""
        end = max((record.offset + 1 for record in self._log(alias)), default=0)

        def at_end() -> bool:
            return all(
                self.testbed.positions(alias, each.group).get(self._partition, 0) >= end for each in applications
            )

        self.testbed.wait(f"{' and '.join(a.short for a in applications)} are at the end of {alias}'s log", at_end)

    def _checkpoints_are_there(self) -> bool:
        """Do RIGHT's checkpoints say as far as is possible what the applications have read of RIGHT's log?"""
        known = checkpointed_positions(self.testbed.settings, FORWARD)
        log = self._log("RIGHT")
        for each in self._applications:
            first = two_logs.position([order_of(record) for record in log], READ[each.short])
            wanted = log[first].offset if first < len(log) else log[-1].offset + 1
            at = known.get((each.group, self._partition))
            if at is None or at.read is None or at.read.there < wanted:
                return False
        return True

    def _log(self, alias: str) -> list[Record]:
        return self.testbed.read(alias, self.topic)

    def _numbers(self, alias: str) -> list[int]:
        return [order_of(record) for record in self._log(alias)]

    def _logs_table(self, title: str, note: str) -> Table:
        rows = []
        for alias in self._serving:
            log = self._numbers(alias)
            parts = [f"{part[0]} to {part[-1]}" for part in two_logs.stretches(log, ())]
            rows.append({"cluster": alias, "orders": len(log), "in the order of its log": ", ".join(parts)})
        return Table(title, rows, note=note)

    def _behind(self, name: str) -> int:
        """How many orders that an application has read lie behind the first one of RIGHT's log that it has not."""
        return len(two_logs.read_and_behind(self._numbers("RIGHT"), READ[name]))

    # -- checks --------------------------------------------------------------------------------------------------------

    def _check_read(self) -> CheckResult:
        if missing := [name for name in READ if not self._read_on("RIGHT", name) and not self._application(name).runs]:
            return CheckResult(False, f"{' and '.join(missing)} read nothing on RIGHT", "They do not run there.")
        log = set(self._numbers("RIGHT"))

        def unread() -> dict[str, int]:
            return {name: len(log - READ[name] - {*self._read_on("RIGHT", name)}) for name in READ}

        complete = wait_until(lambda: not any(unread().values()), _SETTLED_S)
        missed = [f"{name} has not read {count} of {len(log)}" for name, count in unread().items() if count]
        observed = "; ".join(missed) or f"both have read all {len(log)}"
        return CheckResult(complete, observed, "They began behind the first order that they had not read.")

    def _check_again(self) -> CheckResult:
        log, wrong, observed = self._numbers("RIGHT"), False, []
        for name, read in READ.items():
            on_right = self._read_on("RIGHT", name)
            unavoidable = {*two_logs.read_and_behind(log, read)}
            again = two_logs.repeated(on_right, read)
            wrong |= not on_right or not set(again) <= unavoidable or len(again) != len(set(again))
            observed.append(f"{name} read {len(again)} again" if on_right else f"{name} read nothing on RIGHT")
        return CheckResult(not wrong, "; ".join(observed), "They began earlier than they had to, or read nothing.")

    def _check_merged(self) -> CheckResult:
        if "LEFT" not in self._serving:
            return CheckResult(False, "LEFT is down", "It comes back last.")
        both = [Counter(self._numbers(alias)) for alias in ("LEFT", "RIGHT")]
        missing = [len({*JOINED, *TAIL, *NEWEST} - {*log}) for log in both]
        twice = sum(count > 1 for log in both for count in log.values())
        unread = [name for name in READ if not {*TAIL} <= {*self._read_on("RIGHT", name)}]
        observed = f"{missing[0]} are missing on LEFT, {missing[1]} on RIGHT, {twice} are there twice"
        if unread:
            observed += f"; {' and '.join(unread)} did not read the late ones on RIGHT"
        crossed = not any(missing) and not twice
        holds = crossed and not unread
        late = "The late ones are read where the applications were when LEFT came back, which was not RIGHT."
        return CheckResult(
            holds, observed, late if crossed else "What each cluster took has not crossed, or not only once."
        )


def _origin(number: int) -> str:
    """The cluster that acknowledged the order first."""
    return "RIGHT" if number >= RIGHTS else "LEFT"


def _difference(predicted: int, measured: int) -> str:
    """What the difference between the second prediction and the answer teaches."""
    if predicted == measured:
        return "all that it has read and that lies behind its position in RIGHT's log."
    if predicted == 0:
        return "0 would be right with prefixed names, where a mirror topic keeps the order of its source."
    if predicted < measured:
        return "every order behind the position counts that LEFT's log has before it, not only the newest ones."
    return "what lies before the position in RIGHT's log as well is not read again."
