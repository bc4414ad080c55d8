"""Steps on unmodified clients of a lab: started at one bootstrap address, and judged once the applications have moved.

Rules: without `clients` both steps do nothing. A client that does not continue in time fails no step: it is judged by what its
history has, and the run's verdict says it. Each check is about one family.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pydantic import field_validator

from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, Evidence, ReadOnlyAction
from drlib.drill.step.argument_types import Flag, Seconds, Text, Texts, nearest
from drlib.drill.step.step_output import ScorecardPart
from drlib.drill.testbed.failover_step import FailoverStep, StateChangeAction
from drlib.errors import Unreachable, UsageError
from drlib.lab.clients import rules, runtimes
from drlib.lab.clients.families import ALL, BY_NAME, Runtime, chosen, on_secured_lab
from drlib.lab.clients.on_lab import Chosen, LabClients, One
from drlib.lab.clients.rules import Move, Seen
from drlib.lab.workload.topics import TopicSpec
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import ClientScore, RtoSeconds
from drlib.runs.waiting import look_at, wait_for

ENOUGH: Final = 20  # records that each client has processed before the fault
_START_S: Final = 240.0
_LOOK_S: Final = 0.5


def _known(name: str, names: Sequence[str], argument: str) -> str:
    if name not in names:
        hint = nearest(name, names, f"There are {', '.join(names)}.")
        raise UsageError(f"lab.clients: {argument}: {name}", "there is no such family of clients", hint)
    return name


class ClientsStep(FailoverStep):
    """A step on the unmodified clients of the run."""

    @property
    def clients_on_lab(self) -> LabClients:
        testbed = self.testbed
        return LabClients(self.lab, self.context.run_dir, self.flow, testbed.pointer_path, testbed.shared)


class StartClients(StateChangeAction, ClientsStep):
    """Start unmodified clients of each family at one bootstrap address that follows the pointer; none by default."""

    name = "lab.clients"
    after = "running"

    clients: Texts = ()
    """Which families: `all`, or names such as `java` and `librdkafka`."""
    left_behind: Text = ""
    """A family of which one more client gets the source's own address, and so is left behind."""

    @field_validator("clients")
    @classmethod
    def _families(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_known(name, (ALL, *BY_NAME), "clients") for name in names)

    @field_validator("left_behind")
    @classmethod
    def _family(cls, name: str) -> str:
        return _known(name, tuple(BY_NAME), "left_behind")

    def check(self) -> None:
        super().check()
        if self.clients or self.left_behind:
            self._chosen()
        if self.left_behind and self.left_behind not in self.clients and ALL not in self.clients:
            names = ",".join((*self.clients, self.left_behind))
            raise UsageError(
                f"lab.clients: left_behind: {self.left_behind}",
                "no client of this family runs at the address, so that nothing could be compared with it",
                f"Run them too: clients={names}.",
            )

    def _chosen(self) -> Chosen:
        """Raises `UsageError` for a family that was named and cannot run."""
        named = (*self.clients, self.left_behind) if self.left_behind else self.clients
        found = runtimes.found()
        return Chosen(chosen(named, on_secured_lab(found) if self.lab.secured else found), self.left_behind)

    @property
    def entity(self) -> str:
        if not self.clients:
            return "unmodified clients (none)"
        return f"unmodified clients ({', '.join(self.clients)}) at {self.flow.source}"

    def reached(self) -> bool:
        return not self.clients or (bool(self.clients_on_lab.chosen.families) and self.clients_on_lab.runs())

    def observe(self) -> Sequence[Fact]:
        if not self.clients:
            return ()
        return (*super().observe(), Fact(self.testbed.pointer_entity, self.testbed.active()))

    def changes(self, observed: Sequence[Fact]) -> Changes:
        if not self.clients:
            return ()
        runs, pointer = observed
        named = () if pointer.value else (Change(pointer.entity, None, self.flow.source),)
        return (*super().changes((runs,)), *named)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        if not self.clients:
            return {"clients": 0}
        abort.check()
        clients, wanted = self.clients_on_lab, self._chosen()
        clients.start(
            wanted,
            lambda topics: self._wait_copied(topics, abort),
            lambda what, reached, seconds: self.testbed.wait(what, reached, seconds, abort),
        )
        self._wait_all(clients, abort)
        rows: list[dict[str, Scalar]] = [
            {"family": each.family, "version": each.version, "not run": each.missing} for each in wanted.families
        ]
        self.show(rows)
        return {
            "clients": sum(not each.missing for each in wanted.families),
            "address": clients.chosen.address,
            "not_run": "; ".join(f"{each.family}: {each.missing}" for each in wanted.families if each.missing),
            "left_behind": self.left_behind,
        }

    def _wait_copied(self, topics: Sequence[TopicSpec], abort: Abort) -> None:
        """Under identical names, until both directions copy them: what is written before that is unexplained."""
        if self.testbed.shared:
            self.testbed.wait(
                "both directions copy the clients' topics", lambda: self.testbed.copies(topics), 60, abort
            )

    def _wait_all(self, clients: LabClients, abort: Abort) -> None:
        """Raises `Unreachable` naming those that have not processed enough."""

        def behind() -> list[One]:
            return [one for one in clients.each() if clients.processed(one) < ENOUGH]

        try:
            self.testbed.wait("every client has processed records", lambda: not behind(), _START_S, abort)
        except Unreachable as error:
            names = ", ".join(one.name for one in behind())
            log = self.lab.root / f"{behind()[0].process('consume')}.log" if names else self.lab.root
            raise Unreachable(
                f"clients that do not work at {self.flow.source}: {names}", error.why, f"Read {log}."
            ) from error

    def probe(self, changes: Changes) -> Reach:
        if not changes:
            return Reach.DONE
        return Reach.PARTLY if self.clients_on_lab.chosen.families else Reach.UNTOUCHED  # act waits until they work

    def undo(self, changes: Changes) -> None:
        """Stop them and the address. Their topics stay, as they hold records."""
        if changes:
            self.clients_on_lab.stop_all()
            self.clients_on_lab.forget()


class JudgeClients(ReadOnlyAction, ClientsStep):
    """Wait until unmodified clients continue, stop them, and judge what each wrote and read; nothing where there are none."""

    name = "proof.clients"

    planned: Flag = False
    """Whether the source serves: the clients were made to leave it, and all that it acknowledged has to be on the target. The
    slowest of them ends the RTO."""
    deadline_s: Seconds = 90
    """How long they may take to continue; one that does not is judged all the same."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        clients, move = self.clients_on_lab, self._move()
        ran = [one for one in clients.each() if not one.left_behind]
        if not ran or move is None:
            return {"clients": 0}
        self._wait("unmodified clients continue", lambda: all(self._continued(one, move) for one in ran), abort)
        clients.stop("produce")
        logged = {one: clients.logged(one) for one in ran}
        self._wait(
            "they have read everything", lambda: all(self._finished(logged[one], one, move) for one in ran), abort
        )
        clients.stop_all()
        scores = [self._score(one, move) for one in clients.each()]
        rto = self._rto(scores, move) if self.planned else None
        scores += [rules.not_run(BY_NAME[each.family], each.version, each.missing) for each in self._not_run()]
        self.show(list(map(_row, scores)))
        checks = tuple(rules.check(score, move) for score in scores)
        self.score(ScorecardPart(clients=tuple(scores), checks=checks, rto_seconds=rto))
        measured: dict[str, Scalar] = {}
        if rto is not None:
            measured = {"rto_why": rto.why} if rto.total is None else {"rto_seconds": rto.total}
        return {
            "clients": len(ran),
            "lost": sum(score.lost or 0 for score in scores if not score.left_behind),
            "skipped": sum(score.skipped or 0 for score in scores if not score.left_behind),
            "left_behind": clients.chosen.left_behind,
            "not_run": ", ".join(each.family for each in self._not_run()),
            **measured,
        }

    def _rto(self, scores: Sequence[ClientScore], move: Move) -> RtoSeconds:
        """Mark its end where every client has continued."""
        last_ms = rules.continued_at(scores, move)
        if last_ms is None:
            return moments.seconds(self.context.run_dir).model_copy(update={"why": "not every client has continued"})
        moments.mark(self.context.run_dir, "verify", last_ms)
        return moments.seconds(self.context.run_dir)

    def _move(self) -> Move | None:
        run = self.context.run_dir
        fault, led = moments.at(run, "fault"), moments.at(run, "act" if self.planned else "decide")
        if fault is None or led is None:
            return None
        return Move(self.flow.source, self.flow.target, fault, led, self.planned)

    def _wait(self, what: str, holds: Callable[[], bool], abort: Abort) -> None:
        """Until then or for `deadline_s` seconds: what did not happen is seen in the histories."""
        with contextlib.suppress(Unreachable):
            wait_for(abort, what, holds, self.deadline_s, look_at(self.lab.root), look_s=_LOOK_S)

    def _continued(self, one: One, move: Move) -> bool:
        return rules.continued(BY_NAME[one.runtime.family], self.clients_on_lab.seen(one), move)

    def _finished(self, logged: Seen, one: One, move: Move) -> bool:
        now = replace(logged, consumed=self.clients_on_lab.consumed(one))
        return rules.finished(BY_NAME[one.runtime.family], now, move)

    def _score(self, one: One, move: Move) -> ClientScore:
        return rules.judge(BY_NAME[one.runtime.family], one.runtime.version, self.clients_on_lab.logged(one), move)

    def _not_run(self) -> list[Runtime]:
        return [each for each in self.clients_on_lab.chosen.families if each.missing]


def _row(score: ClientScore) -> dict[str, Scalar]:
    return {
        "family": score.family,
        "version": score.version,
        "verdict": score.verdict.value,
        "written after s": score.wrote_after_s,
        "read after s": score.read_after_s,
        "restarts": score.restarts,
        "read again": score.re_read,
        "lost": score.lost,
        "skipped": score.skipped,
        "sums that differ": score.sums_differ,
        "why": score.why,
    }
