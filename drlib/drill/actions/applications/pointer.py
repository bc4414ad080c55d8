"""The applications' pointer as a drill reads and writes it: its file, or the topic on every cluster that answers.

Rules: clusters that do not answer are left out and named, so that a dead one costs a step one request only. What
was there before a step and what it writes are on disk before it writes, so that a process that resumes it knows both.
A move counts only if the cluster that applications move to has the pointer: it may be the only one left to read it from.
Versions are one sequence over all applications, in files too: that of one application is `pointer.NAME.json` beside
`pointer.json`, where it was published or moved alone, and is written with it when all applications are moved. A flow moves
and holds its own applications: one whose own pointer names another cluster, or mirrors of one, is left where it is. From a
source that is lost all move that are there.
Not for: what a pointer is (`drlib.client.pointer`, `pointer_topic`).
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from drlib import clock
from drlib.client import pointer as pointers
from drlib.client import pointer_file
from drlib.client.pointer import Pointer, PointerConflict, staying
from drlib.client.pointer_topic import EVERYONE, TOPIC, Found, publish, read_pointers
from drlib.drill.plan.one_look import once
from drlib.drill.plan.progress import Reach
from drlib.drill.step import step_output as details
from drlib.drill.step.action import DrillCall
from drlib.drill.step.argument_types import Text
from drlib.drill.step.context import DrillContext
from drlib.drill.step.flow_arguments import FlowArguments
from drlib.drill.step.known_silence import KnownSilence, Silence, ask_in_run, counts, repeated
from drlib.errors import Deviated, DrlibError, Unreachable
from drlib.kafka.admin.connect import ANSWER_S
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import Scalar

LEFT_OUT_S = 60.0  # for which a cluster is left out whose topic could not be read or written
NO_POINTER = "nobody"  # the value in plans and journals


@dataclass(frozen=True)
class Read:
    """`silent`: clusters that did not answer, by alias, and why; they may have a newer pointer. `next_version`: for what is
    written next, above that of every application's pointer."""

    pointer: Pointer | None
    silent: Mapping[str, str]
    next_version: int


@dataclass(frozen=True)
class Moved:
    """What a step found and wrote."""

    before: Pointer | None
    after: Pointer


class PointerPlace:
    """The pointer of `application` at `place`; `step` names what is kept of it."""

    def __init__(
        self,
        place: DrillContext,
        step: str,
        application: str = EVERYONE,
        moving: Flow | None = None,
        *,
        lost: bool = False,
    ) -> None:
        self._place = place
        self._moving = moving or place.flow
        self._lost = lost
        self._application = application
        self._file = f"pointer.{step}"

    @property
    def application(self) -> str:
        return self._application

    @property
    def entity(self) -> str:
        """What a plan calls it."""
        where = self._place.pointer.name if self._place.pointer is not None else f"topic {TOPIC}"
        whose = "active cluster" if self._application == EVERYONE else f"active cluster of {self._application}"
        return f"{whose}, as {where} says"

    @property
    def file(self) -> Path | None:
        """The file that the application follows; None where it is the topic."""
        common = self._place.pointer
        return (
            common
            if common is None or self._application == EVERYONE
            else pointer_file.own_file(common, self._application)
        )

    def read(self) -> Read:
        """Raises `Unreachable` when no cluster answers, `PointerConflict` for two contents of one version, `UsageError`."""
        if (common := self._place.pointer) is not None:
            stored = pointer_file.read_all(common)
            ours = [stored[path] for path in (self.file, common) if path in stored]
            highest = max((each.version for each in stored.values()), default=0)
            return Read(max(ours, key=lambda each: each.version, default=None), {}, 1 + highest)
        found, silent = once((self._place.run_dir, TOPIC), self._topics)
        newest = found.of(self._application)
        return Read(newest.pointer, silent, newest.next_version)

    def _topics(self) -> tuple[Found, Mapping[str, str]]:
        """The pointers of all applications, and why clusters are not among them."""
        answering, silent = self._who()
        began = time.monotonic()
        found = read_pointers(answering, timeout_s=ANSWER_S)
        self._note(answering, found.silent, began)
        return found, silent | {alias: error.why for alias, error in found.silent.items()}

    def write(self, before: Pointer | None, after: Pointer, on: str | None = None) -> Mapping[str, str]:
        """Record both, and make `after` the newest, as written by this run; returns the clusters that did not get it, and
        why. A pointer that is there already is written to the clusters that missed it.

        Raises `PointerConflict` where another writer was first, `Unreachable` where the cluster `on` did not get it: other
        clusters have it then, and writing it again completes it.
        """
        if after != before:
            after = replace(after, by=self._by)
            rows: list[Mapping[str, Scalar]] = [
                {"which": "before", "pointer": None if before is None else pointers.encode(before).decode()},
                {"which": "after", "pointer": pointers.encode(after).decode()},
            ]
            details.write_rows(self._place.run_dir, self._file, rows)
        if self._place.pointer is not None:
            self._write_files(after)
            return {}
        answering, silent = self._who()
        began = time.monotonic()
        published = publish(answering, after, self._application, stays=self._stays)
        self._note(answering, published.missing, began)
        missing = silent | {alias: error.why for alias, error in published.missing.items()}
        if on in missing:
            raise Unreachable(
                f"the pointer was not written to {on}, which applications are to use",
                f"{missing[on]}; it was written to {', '.join(published.where)}",
                f"Make {TOPIC} on {on} writable for this user, then continue the run: it writes the same pointer there.",
            )
        return missing

    def forget(self) -> None:
        """What the step was about to write was not written, and is not the step's."""
        details.write_rows(self._place.run_dir, self._file, [])

    def kept(self) -> Moved | None:
        """What the step wrote, or was about to when it was killed."""
        rows = {row["which"]: row["pointer"] for row in details.read_rows(self._place.run_dir, self._file)}
        if not isinstance(rows.get("after"), str):
            return None
        before, after = rows["before"], str(rows["after"])
        return Moved(
            pointers.decode(before.encode(), self._file) if isinstance(before, str) else None,
            pointers.decode(after.encode(), self._file),
        )

    def wrote(self, now: Pointer) -> bool:
        """Is the pointer `now` what the step wrote?"""
        kept = self.kept()
        return kept is not None and _same(now, kept.after)

    def reach(self, at: str = "") -> Reach:
        """Whether the pointer is what the step wrote, or what was there before, by it or by its undo.

        Versions are not compared: an undo, also that of a later step, writes the same pointer under a newer version. One that
        others wrote meanwhile, and that names `at`, where the step would leave it, is no unknown.
        """
        kept, now = self.kept(), self.read().pointer
        if kept is None or _same(now, self._before(kept)):
            return Reach.UNTOUCHED
        there = now is not None and now.active == at
        return Reach.PARTLY if there or _same(now, kept.after) else Reach.UNKNOWN

    def put_back(self) -> None:
        """Restore what was there before the step, under a new version. Raises `Deviated` when it was moved since."""
        kept, found = self.kept(), self.read()
        now = found.pointer
        if kept is None or now is None or _same(now, self._before(kept)):
            return
        if not _same(now, kept.after):
            raise Deviated(
                "the pointer is left as it is",
                f"it was set to {describe(kept.after)} and is {describe(now)}: another client changed it",
                "Find out who publishes the pointer.",
            )
        before = self._before(kept)
        if before is None:
            assert self.file is not None
            self.file.unlink(missing_ok=True)
            return
        back = replace(before, version=found.next_version, by=self._by)
        if self._place.pointer is not None:
            self._write_files(back)
        else:
            publish(self._who()[0], back, self._application, stays=self._stays)

    def _before(self, kept: Moved) -> Pointer | None:
        """What an undo restores. A topic that had no pointer names the source then: who has followed a pointer follows a newer
        one, and none that is gone."""
        if kept.before is not None or self.file is not None:
            return kept.before
        source = self._place.clusters[self._moving.source]
        return Pointer(1, source.alias, ",".join(source.bootstrap_servers))

    def _write_files(self, pointer: Pointer) -> None:
        """What is written for all applications replaces the pointers of single ones, but of those that stay."""
        assert self.file is not None
        stored, left = pointer_file.read_all(self.file) if self._application == EVERYONE else {}, {}
        if stored:
            common = stored.pop(self.file, None)
            own = [(str(path), each) for path, each in stored.items()]
            left = staying(own, 0 if common is None else common.version, pointer.version, self._stays)
            for name, each in left.items():  # first: a reader of both files moves nowhere in between
                pointer_file.write_atomic(Path(name), each)
        pointer_file.write_atomic(self.file, pointer)
        for path in stored:
            if str(path) not in left:
                pointer_file.write_atomic(path, pointer)

    def moves(self, pointer: Pointer) -> bool:
        """Are applications that follow `pointer` the flow's?"""
        return of_flow(pointer, self._moving, self._prefixes, lost=self._lost)

    def _stays(self, own: Pointer) -> bool:
        """Is an application with this pointer of its own none of the flow's: at another cluster, or of another one?"""
        return not self.moves(own)

    @property
    def _prefixes(self) -> tuple[str, ...]:
        """Of the mirror topics of the flow and the flow back; none where no file says which they are."""
        if self._place.properties is None:
            return ()
        settings = self._place.mirror_settings()
        return tuple(
            settings.flow(f.source, f.target).policy.remote_prefix(f.source)
            for f in (self._moving, self._moving.reverse)
        )

    @property
    def _by(self) -> str:
        return f"run {self._place.run_dir.name}"

    def _who(self) -> tuple[list[ClusterSettings], dict[str, str]]:
        """The clusters to ask, and why the others are left out: they are silent, or their topic was, a moment ago."""
        clusters = list(self._place.clusters.values())
        answers = ask_in_run(self._place, clusters)
        silent = {alias: answer.why for alias, answer in answers.items() if isinstance(answer, Unreachable)}
        known = KnownSilence(self._place.run_dir).all()
        for cluster in clusters:
            subject = topic_on(cluster.alias)
            if counts(known.get(subject), clock.now_ms(), LEFT_OUT_S):
                silent.setdefault(cluster.alias, repeated(subject, clock.now_ms(), known).why)
        answering = [cluster for cluster in clusters if cluster.alias not in silent]
        if not answering:
            why = "; ".join(f"{alias}: {reason}" for alias, reason in silent.items())
            raise Unreachable("the pointer cannot be read", why, "Start one of the clusters.")
        return answering, silent

    def _note(self, asked: Sequence[ClusterSettings], silent: Mapping[str, DrlibError], began: float) -> None:
        """A cluster may answer while nothing can be read from it or written to it, as with one broker of three."""
        now_ms, took_s = clock.now_ms(), round(time.monotonic() - began, 3)
        KnownSilence(self._place.run_dir).note(
            {
                topic_on(alias): Silence(silent[alias].why, now_ms, took_s) if alias in silent else None
                for alias in (cluster.alias for cluster in asked)
                if alias != self._place.flow.target
            }
        )


def of_flow(own: Pointer, flow: Flow, prefixes: Collection[str], *, lost: bool = False) -> bool:
    """Is an application, whose own pointer this is, one that `flow` moves? `prefixes`: of mirrors of its two clusters.

    Who is at one of them and reads mirrors of a third one came from there, and moves with that one; from a source that is
    `lost` all move.
    """
    if lost and own.active == flow.source:
        return True
    return own.active in (flow.source, flow.target) and (
        own.remote_prefix is None or not prefixes or own.remote_prefix in prefixes
    )


def topic_on(alias: str) -> str:
    """What a silence of one copy is kept under."""
    return f"topic {TOPIC} on {alias}"


class PointerArgument(DrillCall):
    """The pointer that an action is about."""

    application: Text = EVERYONE
    """The application whose pointer is used; by default the one that every application follows."""

    source_lost: ClassVar[bool] = True
    """Whether all applications at the source have to leave it, wherever they came from."""

    @property
    def pointer(self) -> PointerPlace:
        flow = self.flow if isinstance(self, FlowArguments) else None
        return PointerPlace(self.context, self.step, self.application, flow, lost=self.source_lost)


def conflict(place: PointerPlace, now: Pointer | None) -> PointerConflict:
    """What to raise when the pointer is not what a step relies on."""
    return PointerConflict(
        "another client moved the pointer",
        f"it is {describe(now)}",
        f"Find out who publishes it ({place.entity}), then plan again.",
    )


def without_ends(why: str) -> Check:
    """What is said of a pointer that was `fitted`."""
    return Check("the pointer has the ends of mirror topics", Verdict.CONDITIONS, why)


def _same(one: Pointer | None, other: Pointer | None) -> bool:
    return one is other or (one is not None and other is not None and replace(one, version=other.version) == other)


def describe(pointer: Pointer | None) -> str:
    if pointer is None:
        return NO_POINTER
    return f"{pointer.active} (version {pointer.version}{', producers held' if pointer.hold else ''})"
