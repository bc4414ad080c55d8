"""L7, recovery on secured clusters: `drlib doctor` finds what would fail, a rehearsal passes, `drlib failover` moves.

Rules: clusters paris and lyon have TLS, logins and ACLs; the worker and the commands have the rights of their roles. The fault
takes from the mirror's user the rights to read positions of groups: it copies on, and lyon's checkpoints stand still. paris is
killed only after a rehearsal has passed. Applications are real: billing is a Java consumer, shipping a Python one, and the
learner's cell moves both as the command's document `applications` says. What they read is in their own histories.
Not for: the way back, which `drlib failback` does.
Longer than most modules: two predictions, the learner's commands, two applications.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import plotly.graph_objects as go

from drlib.client.active_cluster import publish_pointer
from drlib.client.pointer_topic import read_pointer
from drlib.drill.plan.states import DrillState
from drlib.errors import UsageError
from drlib.lab.brokers.acls import revoke
from drlib.lab.brokers.security import USER
from drlib.lab.processes import wait_until
from drlib.mirror.preflight.required_acls import Right, command
from drlib.mirror.sync.source_groups import OFFSETS_TOPIC, UNLISTED
from drlib.outgoing.terminal import show
from drlib.runs.table import Table
from drlib.training.academy import two_logs
from drlib.training.academy.applications import AGAIN, FAMILY, LANGUAGES, ApplicationsLesson
from drlib.training.academy.lesson import BREAK, CheckResult
from drlib.training.academy.pictures import Stretch, logs
from drlib.training.academy.points import Teaching
from drlib.training.academy.secured_testbed import FLOW, SECURED, SecuredTestbed
from drlib.training.academy.testbed import order_of

TRAFFIC: Final = "traffic"
NIGHT: Final = "night"
FIRST: Final = range(80)  # written on paris, read by both, and known on lyon before the fault
MORE: Final = range(FIRST.stop, 200)  # read by both after it; then shipping is stopped
LAST: Final = range(MORE.stop, 250)  # read by billing
TAIL: Final = range(LAST.stop, 290)  # acknowledged by paris while the worker is stopped, and read by billing
LYONS: Final = range(1000, 1060)  # written on lyon after the move
READ: Final = {"billing": LAST.stop, "shipping": MORE.stop}  # of what lyon has, when paris is killed
FLOW_ALIASES: Final = (FLOW.source, FLOW.target)
ANSWER_S: Final = 4.0
_SETTLED_S: Final = 30.0


class SecuredRecovery(ApplicationsLesson):
    key = "L7"
    title = "Recovery on secured clusters"
    first = (TRAFFIC, "lesson.traffic()")
    teaching = Teaching(
        high="The records crossed, and no position did any more: lyon knows only what it knew before the clean-up.",
        low="What lyon knew before the clean-up it does not forget: only what was read after that is read again.",
    )
    lab = SECURED
    testbed_type = SecuredTestbed
    testbed: SecuredTestbed
    hints = (
        "lesson.doctor() lists what the mirror itself reports. One finding is about consumer groups: which right does it lack?",
        "lesson.rights() prints all rights of the mirror's user as commands. Those on paris for --group and for "
        "__consumer_offsets are gone: lesson.kafka_acls('paris', '...') runs a command.",
        "Run both commands with lesson.kafka_acls('paris', ...), then lesson.rehearse(), lesson.predict_again('0'), "
        "lesson.night(), and the loop over lesson.failover() with lesson.move(...).",
    )
    claims = (
        "lyon knows from which order billing and shipping have to continue",
        "on lyon both have read what they had not read on paris, and nothing twice",
        "drlib failover has ended, and the pointer names lyon",
    )

    # -- the steps -----------------------------------------------------------------------------------------------------

    def traffic(self) -> Table:
        """Grant the roles their rights, start the worker and both applications on paris, and write the first orders."""
        self.step(TRAFFIC, self._traffic)
        return self.fault_state()

    def init(self) -> None:
        """`drlib init`: write runbooks for these clusters."""
        options = ("--dir", str(self.testbed.runbooks), "--rto", "10m", "--rpo", "10m", "--rpo-records", "none")
        self._command("init", self.file, *options)

    def doctor(self) -> None:
        """`drlib doctor`: what would fail tonight."""
        self._command("doctor", self.file, "--runs-dir", str(self.testbed.runs_dir))

    def rights(self) -> None:
        """`drlib doctor --rights`: what the mirror's user needs, as commands."""
        options = ("--rights", "--role", "mirror", "--principal-mirror", f"User:{USER}", "--flow", str(FLOW))
        self._command("doctor", self.file, *options)

    def kafka_acls(self, alias: str, command: str) -> None:
        """Run a command of kafka-acls.sh on a cluster as its admin; address and login are filled in."""
        self.require(TRAFFIC, "lesson.traffic()")
        if alias not in FLOW_ALIASES:
            raise UsageError(f"cluster {alias}", "there are paris and lyon", "Use one of them.")
        show(self.testbed.kafka_acls(alias, command))

    def rehearse(self) -> Table:
        """`drlib run` of the learner's own rehearsal, while everything runs."""
        self.require(TRAFFIC, "lesson.traffic()")
        if not self.has_done(NIGHT):
            book = self.testbed.runbooks / "rehearse.yaml"
            if not book.exists():
                self.init()
            given = ("--runs-dir", str(self.testbed.runs_dir), *self.testbed.supersede())
            self._command("run", str(book), self.file, *given)
        passed = self._rehearsed() or self.has_done(NIGHT)
        note = f"lyon says of {FLOW}: {self.testbed.state().state}."
        return Table(f"A rehearsal has {'passed' if passed else 'not passed'}", [], note=note)

    def night(self) -> Table:
        """Stop the worker, let paris acknowledge more orders, and kill paris (SIGKILL)."""
        if not self.has_done(AGAIN):
            return self._second_missing()
        if not self.has_done(NIGHT) and not self._rehearsed():
            return Table("A rehearsal comes first", [], note="paris is killed only after lesson.rehearse() has passed.")
        self.step(NIGHT, self._night)
        return self.fault_state()

    def failover(self) -> Iterator[Mapping[str, object]]:
        """`drlib failover --json`, in the background: its documents as they come. Repeated, it continues or says it again."""
        if not self.has_done(NIGHT):
            show("paris runs: there is nothing to fail over. lesson.night() comes first.")
            return
        testbed = self.testbed
        if testbed.runs("failover") or testbed.state().state is not DrillState.FAILED_OVER:
            where = ("--runbook", str(testbed.runbooks), "--runs-dir", str(testbed.runs_dir))
            testbed.launch("failover", "failover", self.file, "--yes", FLOW.target, "--json", *where)
        yield from testbed.documents("failover")

    def move(self, alias: str, topics: Mapping[str, Sequence[str]]) -> Table:
        """Restart the applications on cluster `alias`, where each reads `topics`, by group or name; the shops write there."""
        self.require(NIGHT, "lesson.night()")
        if alias != FLOW.target:
            raise UsageError(f"nothing can be moved to {alias}", "paris was killed", f"Move them to {FLOW.target}.")
        named = {group.removeprefix(self.testbed.prefix): [*those] for group, those in topics.items()}
        if unknown := sorted(named.keys() - FAMILY.keys()):
            raise UsageError(
                f"there is no application {', '.join(unknown)}",
                f"there are {' and '.join(FAMILY)}",
                "Give their groups, as the document applications names them.",
            )
        if not self.testbed.end_offsets(alias, self.topic):
            raise UsageError(
                f"{self.topic} does not exist on {alias}",
                "drlib failover creates the topics that producers write to, before it moves the pointer",
                "Move the applications once it has printed the document `applications`.",
            )
        for name, those in named.items():
            application = self._application(name)
            application.stop()
            application.start(alias, *those)
        self.testbed.write_missing(alias, self.topic, LYONS)
        return self.fault_state()

    # -- as every lesson -----------------------------------------------------------------------------------------------

    def question(self) -> str:
        return (
            "billing has read and committed all orders of the table above, and all is mirrored; orders are numbered from 0 on. "
            f"Now a clean-up of ACLs on paris takes rights from user {USER} that it does not need to copy records. More orders "
            "are written, mirrored, and committed by billing. Then paris fails. With which order does billing begin on lyon?"
        )

    def reference_answer(self) -> str:
        return str(FIRST.stop)

    def question_again(self) -> str:
        return (
            f"The worker is stopped for an update of its machine. paris acknowledges {len(TAIL)} more orders, which billing "
            "reads and commits there. Then paris fails, and billing continues on lyon. How many orders does it read a second "
            "time?"
        )

    def reference_again(self) -> str:
        return "0"

    def measured(self) -> float | None:
        """The order at lyon's newest checkpoint of billing; the logs have an offset for each order."""
        return self.numbers.get("known")

    def show_truth(self) -> Table:
        committed, known = self.numbers["committed"], self.numbers["known"]
        rows: list[dict[str, object]] = [
            {"what": "billing had committed on paris", "orders": committed},
            {"what": "lyon knew of, by its newest checkpoint", "orders": known},
            {"what": "billing would have read again", "orders": committed - known},
        ]
        note = f"billing would have read {committed - known} again: the records crossed, and no position did any more."
        read = self._read_on("lyon", "billing")
        if self.has_done(NIGHT) and read:
            again = len(two_logs.repeated(read, self._read_on("paris", "billing")))
            rows.append({"what": "billing has read again after your repair", "orders": again})
            rows.append({"what": "orders that only paris has", "orders": len(TAIL)})
            predicted = self.numbers["again"]
            note += f" Your second prediction was {predicted}, and it is {again}: {_difference(predicted, again)}"
        return Table("What billing reads again", rows, note=note)

    def inject_fault(self) -> Mapping[str, int]:
        testbed, refused = self.testbed, {"GroupTailUnavailable", UNLISTED}
        revoke(testbed.lab.clusters[FLOW.source], USER, self._removed)
        testbed.wait("the worker is refused", lambda: refused <= testbed.open_events())
        self._write(MORE, *FAMILY)
        self._application("shipping").stop()
        self._write(LAST, "billing")
        testbed.wait("all orders are mirrored", lambda: len(self._numbers(FLOW.target)) >= LAST.stop)
        return {"committed": self._committed("billing"), "known": self._known("billing")}

    def fault_state(self) -> Table:
        testbed = self.testbed
        serving = testbed.lab.clusters["paris"].alive
        mirrored = len(testbed.read(FLOW.target, self.copy))
        behind = f", {len(self._numbers('paris')) - mirrored} orders behind" if serving else ""
        runs = testbed.worker.runs
        rows: list[dict[str, object]] = [
            {"what": "paris", "state": "runs" if serving else "was killed (SIGKILL)"},
            {
                "what": "the mirror",
                "state": f"runs{behind}" if runs else f"is stopped; lyon has {mirrored} orders of paris",
            },
        ]
        for name, family in FAMILY.items():
            read = [
                f"{len({*self._read_on(alias, name)})} orders on {alias}"
                for alias in FLOW_ALIASES
                if self._read_on(alias, name)
            ]
            state = "runs" if self._application(name).runs else "is stopped"
            rows.append(
                {
                    "what": f"{name} ({LANGUAGES[family]})",
                    "state": f"{state}, has read {' and '.join(read) or 'nothing'}",
                }
            )
        note = "Applications do not notice what the mirror may read." if serving and self.has_done(BREAK) else ""
        return Table("Current state", rows, note=note)

    def reference(self) -> Table:
        """In a trainer's dry run, repair and rehearse; the cells behind it do the rest. Otherwise only a reminder."""
        if not self.dry_run:
            return super().reference()
        self._repair()
        return Table("The rights were granted, and a rehearsal ran", [], note=self.hints[2])

    def apply_reference(self) -> None:
        self._repair()
        self.predict_again(0)
        self.night()
        for document in self.failover():
            if document["event"] == "applications":
                self.move(str(document["target"]), _subscriptions(document))

    def verify(self, number: int) -> CheckResult:
        return (self._check_known, self._check_moved, self._check_flow)[number - 1]()

    def stop_actions(self) -> tuple[Callable[[], None], ...]:
        return (self.testbed.stop_everything,)

    def figure(self) -> go.Figure:
        paris, lyon = FLOW.source, FLOW.target
        again = {*two_logs.repeated(self._read_on(lyon, "billing"), self._read_on(paris, "billing"))}
        drawn = {
            f"{alias}'s logs": [
                Stretch(f"{part[0]}–{part[-1]}", len(part), lyon if part[0] in LYONS else paris, part[0] in again)
                for part in two_logs.stretches(self._numbers(alias), again)
            ]
            for alias in FLOW_ALIASES
            if self.testbed.lab.clusters[alias].alive
        }
        return logs("Orders on each cluster", drawn, "orders", "acknowledged by", "read again by billing")

    # -- the clusters --------------------------------------------------------------------------------------------------

    @property
    def _removed(self) -> tuple[Right, ...]:
        """The rights of the mirror's user that the fault takes."""
        return (
            Right("group", self.testbed.prefix, ("DESCRIBE",), prefixed=True),
            Right("topic", OFFSETS_TOPIC, ("READ",)),
        )

    def _traffic(self) -> None:
        testbed = self.testbed
        for name in FAMILY:
            self._application(name).require()
        testbed.prepare_users()
        testbed.begin_flow()
        testbed.create_topic(FLOW.source, self.topic, 1)
        testbed.start_mirror()
        self._write(FIRST, *FAMILY)
        testbed.wait("lyon knows the positions", lambda: all(self._known(name) >= FIRST.stop for name in FAMILY))
        publish_pointer(self.file, FLOW.source)

    def _night(self) -> None:
        paris = self.testbed.lab.clusters[FLOW.source]
        self.stop_worker()
        if paris.alive:
            self._write(TAIL, "billing")
            self.kill_cluster(FLOW.source)

    def _write(self, orders: range, *readers: str) -> None:
        """Write the orders to paris, and wait until the applications `readers` have committed behind them."""
        testbed = self.testbed
        testbed.write_missing(FLOW.source, self.topic, orders)
        for name in readers:
            self._application(name).start(FLOW.source, self.topic)
        what = f"{' and '.join(readers)} have read {orders.stop} orders"
        testbed.wait(what, lambda: all(self._committed(name) >= orders.stop for name in readers))

    def _committed(self, name: str) -> int:
        """The offset that an application has committed on paris."""
        return self.testbed.positions(FLOW.source, self.testbed.name(name)).get(self._partition, 0)

    def _known(self, name: str) -> int:
        """What lyon knows of it, by its newest checkpoint."""
        return self.testbed.known_on_lyon(self.testbed.name(name), self._partition)

    def _unknown_positions(self) -> list[str]:
        return [name for name, read in READ.items() if self._known(name) < read]

    def _numbers(self, alias: str) -> list[int]:
        """The orders of a cluster, those that crossed first."""
        topics = (self.topic,) if alias == FLOW.source else (self.copy, self.topic)
        return [order_of(record) for topic in topics for record in self.testbed.read(alias, topic)]

    def _repair(self) -> None:
        """Grant what was taken, and rehearse."""
        if self.has_done(NIGHT):
            return
        servers = self.testbed.settings.clusters[FLOW.source].bootstrap_servers
        for right in self._removed:
            self.kafka_acls(FLOW.source, command(right, f"User:{USER}", servers))
        self.testbed.wait("lyon knows the positions", lambda: not self._unknown_positions())
        if not self._rehearsed():
            self.rehearse()

    def _rehearsed(self) -> bool:
        return self.testbed.state().state is DrillState.TESTED

    def _command(self, *arguments: str) -> None:
        """Run a command, and show it with what it prints."""
        self.require(TRAFFIC, "lesson.traffic()")
        show(f"$ drlib {shlex.join(arguments)}")
        show(self.testbed.run(arguments[0], *arguments).rstrip())

    # -- checks --------------------------------------------------------------------------------------------------------

    def _check_known(self) -> CheckResult:
        observed = "; ".join(f"{name}: order {self._known(name)} of {read}" for name, read in READ.items())
        if not self.testbed.lab.clusters[FLOW.source].alive:
            missing = "paris is gone, and with it these positions."
            return CheckResult(not self._unknown_positions(), observed, missing, for_good=True)
        return CheckResult(not self._unknown_positions(), observed, "The mirror's user lacks rights to read positions.")

    def _check_moved(self) -> CheckResult:
        lyon, paris = FLOW.target, FLOW.source
        if not self.has_done(NIGHT):
            return CheckResult(False, "paris was not killed yet", "A rehearsal and the night come first.")
        if missing := [name for name in FAMILY if not self._application(name).runs and not self._read_on(lyon, name)]:
            return CheckResult(False, f"{' and '.join(missing)} read nothing on lyon", "They were not moved.")
        log = {*self._numbers(lyon)}

        def unread() -> dict[str, int]:
            return {name: len(log - {*self._read_on(paris, name)} - {*self._read_on(lyon, name)}) for name in FAMILY}

        complete = wait_until(lambda: not any(unread().values()), _SETTLED_S)
        again = {name: two_logs.repeated(self._read_on(lyon, name), self._read_on(paris, name)) for name in FAMILY}
        observed = "; ".join(
            f"{name} has not read {count}, and read {len(again[name])} again" for name, count in unread().items()
        )
        holds = complete and bool(log & {*LYONS}) and not any(again.values())
        return CheckResult(holds, observed, "They did not continue where they were, or not with all topics.")

    def _check_flow(self) -> CheckResult:
        state = self.testbed.state().state
        clusters = tuple(self.testbed.settings.clusters.values())
        pointer = read_pointer(clusters, timeout_s=ANSWER_S).pointer
        names = "no cluster" if pointer is None else pointer.active
        holds = state is DrillState.FAILED_OVER and names == FLOW.target
        missing = "The failover has not run to its end."
        return CheckResult(holds, f"{FLOW} is {state}; the pointer names {names}", missing)


def _subscriptions(document: Mapping[str, object]) -> dict[str, list[str]]:
    """By group, the topics that the document `applications` says."""
    groups = document["groups"]
    assert isinstance(groups, list)
    return {str(row["group"]): [str(topic) for topic in row["subscribe"]] for row in groups}


def _difference(predicted: int, measured: int) -> str:
    """What the difference between the second prediction and the answer teaches."""
    if predicted == measured == 0:
        return "every checkpoint is exact, and what did not cross cannot be read again on lyon."
    if predicted == measured:
        return "as long as lyon's checkpoints stand still, all that is read after them is read again."
    if measured > 0:
        return "the rights were still missing when paris was killed, so lyon continued at its old checkpoint."
    if predicted == len(TAIL):
        return "these orders are on paris only: no group reads them again on lyon; drlib failback settles them."
    return "a position moves with the records: the checkpoint is exact, however old the worker's last copy is."
