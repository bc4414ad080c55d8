"""The failover drill: LEFT dies in mid-traffic, the applications carry on at RIGHT, and what happened is proven.

Rules: steps run in the order of `STEPS`; a step that was done is not done again, its result is shown again, so that a
cell can be run twice. Each step is in the journal when it begins and when it ends. Verdicts come from the independent
checker and the Spark audit, never from the engine's own numbers.
Not for: real clusters, and resuming after the kernel died; both need plans and leases.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from drlib.clusters.cluster import Cluster
from drlib.config.settings import ClusterSettings
from drlib.drill import proof
from drlib.drill.clock import RtoClock
from drlib.drill.journal import DrillJournal, Scalar
from drlib.drill.sampler import Sampler
from drlib.drill.scorecard import Mark, Objectives, Scorecard
from drlib.drill.stage import FLOW, GROUPS, Stage, Traffic
from drlib.drill.table import Table
from drlib.errors import DrlibError, HypothesisFailed, UsageError
from drlib.lab.lab import Lab
from drlib.mirror.translate import commit_translations, translate_groups
from drlib.model import GroupTranslation, TopicPartition

STEPS: Final = (
    "prepare",
    "steady_state",
    "kill_mirror",
    "kill_source",
    "decide",
    "translate",
    "move",
    "verify",
    "check",
    "audit",
    "conclude",
)
REMOTE: Final = f"{FLOW.source}.flights"
PARTITIONS: Final = 6


class FailoverDrill:
    """One drill. Each public step returns a `Table` to look at."""

    def __init__(
        self,
        run_dir: str | Path,  # empty: a new one under ../runs
        lab_dir: str | Path,
        *,
        traffic: Traffic | None = None,
        lanes: int = 2,
        objectives: Objectives | None = None,
        runbook: str = "failover-drill",
    ) -> None:
        self.run_dir = Path(run_dir or _fresh(runbook)).absolute()
        self.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.objectives = objectives or Objectives()
        self.runbook = runbook
        self._done: dict[str, Table] = {}
        self._marks: list[Mark] = []
        self._clock = RtoClock()
        self._journal = DrillJournal(self.run_dir / "journal.jsonl")
        self._started = _now()
        self._translations: tuple[GroupTranslation, ...] = ()
        self._cutover: dict[str, tuple[int, ...]] = {}
        self._lab, self._own_lab = _lab(Path(lab_dir))
        self._stage = Stage(self._lab, self.run_dir, traffic or Traffic(), lanes)
        self._sampler = Sampler(self._stage)
        self._proof = proof.Proof(self._stage, self.objectives)

    # -- before ----------------------------------------------------------------------------------------------------

    def prepare(self) -> Table:
        """Topics, producers, consumers and the mirror, all running against LEFT."""

        def step() -> Table:
            self._stage.start_applications()
            self._stage.start_mirror()
            self._sampler.start()
            rows: list[dict[str, Scalar]] = [
                {"process": s.name, "pid": s.pid, "alive": s.alive} for s in self._lab.status()
            ]
            return Table("What runs", rows)

        return self._once("prepare", step)

    def steady_state(self) -> Table:
        """The hypothesis: everybody makes progress and the mirror keeps up. Raises `HypothesisFailed`."""

        def step() -> Table:
            backlog, rate = self._stage.traffic.backlog, self._stage.traffic.records_per_second
            enough = backlog + 2 * rate
            try:
                self._stage.wait("the backlog is out", lambda: self._stage.done("flights") >= enough, 60)
                self._stage.wait("the mirror keeps up", lambda: self._stage.mirror().lag < rate, 60)
                self._stage.wait("arrivals keeps up", lambda: self._stage.done("arrivals") >= backlog, 60)
                self._stage.wait("delays makes progress", lambda: self._stage.done("delays") > 0, 30)
            except DrlibError as error:
                raise HypothesisFailed(error.what, error.why, error.remedy) from error
            return self._progress("Steady state")

        return self._once("steady_state", step)

    # -- the faults ------------------------------------------------------------------------------------------------

    def kill_mirror(self) -> Table:
        """SIGKILL the mirror's worker in mid-traffic; another one claims the lanes and goes on."""

        def step() -> Table:
            rate = self._stage.traffic.records_per_second
            self._mark("mirror killed", "SIGKILL")
            self._stage.kill_mirror()
            seen = self._stage.done("flights")
            self._stage.wait("traffic goes on", lambda: self._stage.done("flights") > seen + rate, 30)
            self._stage.start_mirror()
            self._mark("mirror back", "it read back what stood and went on")
            self._stage.wait("the mirror caught up", lambda: self._stage.mirror().lag < rate, 60)
            return self._progress("After the mirror's death")

        return self._once("kill_mirror", step)

    def kill_source(self) -> Table:
        """SIGKILL LEFT in mid-traffic and wait until somebody notices."""

        def step() -> Table:
            self._clock.mark("fault")
            self._lab.clusters[FLOW.source].kill()
            self._mark("LEFT killed", "SIGKILL")
            self._stage.wait("the mirror reports its source", lambda: bool(self._stage.alert()), 60)
            self._clock.mark("detect")
            self._mark("noticed", self._stage.alert())
            return self._progress("At the fault", note=self._stage.alert())

        return self._once("kill_source", step)

    # -- the way over ----------------------------------------------------------------------------------------------

    def decide(self) -> Table:
        """Triage: is LEFT really gone, can RIGHT take over, and what would it cost?"""

        def step() -> Table:
            dead, healthy = not self._answers(FLOW.source), self._answers(FLOW.target)
            known = sum(p.lag for f in self._stage.mirror().flows for p in f.partitions if p.topic == "flights")
            rows: list[dict[str, Scalar]] = [
                {"question": "LEFT does not answer", "answer": dead},
                {"question": "RIGHT answers", "answer": healthy},
                {"question": "records of flights known and not yet mirrored", "answer": known},
            ]
            if not (dead and healthy):
                raise UsageError(
                    "failing over is not the answer", "LEFT answers or RIGHT does not", "Look at both clusters first."
                )
            self._clock.mark("decide")
            self._mark("decided", "fail over")
            return Table("Should we fail over?", rows)

        return self._once("decide", step)

    def translate(self) -> Table:
        """Let the mirror finish what it has, then translate every group's position and commit it on RIGHT."""

        def step() -> Table:
            self._stage.drain_mirror()
            settings = self._stage.settings
            self._translations = translate_groups(settings, FLOW, GROUPS, source_alive=False)
            commit_translations(settings, FLOW, self._translations)
            rows: list[dict[str, Scalar]] = [
                {
                    "group": t.group,
                    "partition": t.source.partition,
                    "on LEFT": t.source_offset,
                    "on RIGHT": t.translation.offset,
                    "meaning": t.translation.kind.value,
                    "behind by": t.translation.records,
                }
                for t in self._translations
            ]
            return Table("Positions committed on RIGHT", rows)

        return self._once("translate", step)

    def move(self) -> Table:
        """Point the applications at RIGHT: the remote topic up to where it ends now, then the local one."""

        def step() -> Table:
            partitions = [TopicPartition(REMOTE, n) for n in range(PARTITIONS)]
            with Cluster(self._settings(FLOW.target)) as right:
                ends = right.log_ends(partitions)
            self._cutover = {REMOTE: tuple(ends[p] for p in partitions)}
            self._stage.move_applications(self._cutover)
            self._clock.mark("act")
            self._mark("applications moved", "the pointer names RIGHT")
            rows: list[dict[str, Scalar]] = [
                {"partition": p.partition, "remote topic ends at": ends[p]} for p in partitions
            ]
            return Table("Cutover", rows)

        return self._once("move", step)

    def verify(self) -> Table:
        """RIGHT serves: producers are acknowledged and both groups make progress; then until both read locally."""

        def step() -> Table:
            at_move = {name: self._stage.done(name) for name in ("flights", *GROUPS)}

            def progressed(name: str) -> bool:
                return self._stage.on_target(name) and self._stage.done(name) > at_move[name]

            for name in at_move:
                self._stage.wait(f"{name} makes progress on RIGHT", lambda n=name: progressed(n), 60)  # type: ignore[misc]
            self._clock.mark("verify")
            self._mark("service restored", "acknowledged and consumed on RIGHT")
            self._proof.warm_up()
            for group in GROUPS:
                self._stage.wait(f"{group} reads the local topic", lambda g=group: self._reads_locally(g), 90)  # type: ignore[misc]
            self._mark("groups read locally", "the remote topic is read to its end")
            return self._progress("On RIGHT")

        return self._once("verify", step)

    # -- the proof -------------------------------------------------------------------------------------------------

    def check(self) -> Table:
        """Stop the traffic and let the independent checker judge histories and a scan of RIGHT."""

        def step() -> Table:
            self._stage.stop("flights", "flights-tx")
            local = [TopicPartition("flights", n) for n in range(PARTITIONS)]
            with Cluster(self._settings(FLOW.target)) as right:
                ends = right.log_ends(local)

                def through(group: str) -> bool:
                    positions = right.group_offsets(group)
                    return all(p in positions and positions[p].offset >= ends[p] for p in local)

                for group in GROUPS:
                    self._stage.wait(f"{group} has read everything", lambda g=group: through(g), 60)  # type: ignore[misc]
            self._stage.stop(*GROUPS, "flights-2013")
            self._sampler.stop()
            return self._proof.check()

        return self._once("check", step)

    def audit(self) -> Table:
        """Start LEFT again and compare both clusters with Spark."""

        def step() -> Table:
            self._lab.clusters[FLOW.source].restart()
            self._mark("LEFT restarted", "for the audit only")
            return self._proof.audit()

        return self._once("audit", step)

    def conclude(self) -> Table:
        """Write `scorecard.json` and close what this drill opened."""

        def step() -> Table:
            card = self.scorecard()
            card.write(self.run_dir / "scorecard.json")
            self.close()
            rows = [{"check": c.name, "verdict": c.verdict.value, "evidence": c.evidence} for c in card.checks]
            return Table(f"Verdict: {card.verdict.value}", rows)

        return self._once("conclude", step)

    def scorecard(self) -> Scorecard:
        """The drill in figures, as far as it has come."""
        return self._proof.scorecard(
            runbook=self.runbook,
            run_id=self.run_dir.name,
            rto=self._clock.seconds(),
            translations=self._translations,
            started_ms=self._started,
            marks=tuple(self._marks),
            samples=self._sampler.samples,
        )

    def close(self) -> None:
        """Stop the sampler, Spark, and the lab if this drill started it. Safe to repeat."""
        self._sampler.stop()
        self._proof.close()
        if self._own_lab:
            self._lab.down()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _once(self, name: str, step: Callable[[], Table]) -> Table:
        if name in self._done:
            return self._done[name]
        missing = [before for before in STEPS[: STEPS.index(name)] if before not in self._done]
        if missing:
            raise UsageError(f"step {name} is too early", f"{missing[0]} was not done", f"Run {missing[0]} first.")
        self._journal.write("step-started", step=name)
        began = time.monotonic()
        try:
            table = step()
        except BaseException as error:
            self._journal.write("step-failed", step=name, error=str(error) or type(error).__name__)
            raise
        self._journal.write("step-succeeded", step=name, seconds=round(time.monotonic() - began, 3))
        self._done[name] = table
        return table

    def _mark(self, name: str, detail: str = "") -> None:
        self._marks.append(Mark(name=name, at_ms=_now(), detail=detail))
        self._journal.write("mark", name=name, detail=detail)

    def _settings(self, alias: str) -> ClusterSettings:
        """The cluster by its CLIENT listener, past the link."""
        return ClusterSettings(alias, tuple(self._lab.clusters[alias].bootstrap.split(",")))

    def _answers(self, alias: str) -> bool:
        try:
            with Cluster(self._settings(alias), timeout_s=1.0) as cluster:
                cluster.cluster_id()
        except DrlibError:
            return False
        return True

    def _reads_locally(self, group: str) -> bool:
        with Cluster(self._settings(FLOW.target)) as right:
            positions = right.group_offsets(group)
        return all(positions.get(TopicPartition("flights", n)) is not None for n in range(PARTITIONS))

    def _progress(self, title: str, note: str = "") -> Table:
        names: Sequence[str] = ("flights", *GROUPS)
        rows: list[dict[str, Scalar]] = [{"application": n, "records": self._stage.done(n)} for n in names]
        told = self._stage.mirror()
        rows.append({"application": "mirror", "records": sum(f.records for f in told.flows)})
        return Table(title, rows, note or f"mirror lag {told.lag} records")


def _lab(root: Path) -> tuple[Lab, bool]:
    """The lab that runs in `root`, or one started there, and whether it was."""
    try:
        found = Lab.attach(root)
        if all(cluster.alive for cluster in found.clusters.values()):
            return found, False
    except UsageError:
        pass
    return Lab(root).up(), True


def _fresh(runbook: str) -> Path:
    """A new run folder beside the notebooks, for a notebook that was given none."""
    return Path("..") / "runs" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{runbook}-{secrets.token_hex(3)}"


def _now() -> int:
    return int(time.time() * 1000)
