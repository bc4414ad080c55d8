"""A source that is dead, frozen, or cut off from this host, as this host, the mirror and a witness see it over their own paths.

This host reaches the clusters over the lab's link, which can be cut; worker and witness reach them directly. The witness has a
token, which is in a file that both properties files refer to.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
import testbed_moves
from fix_engine import wait_for
from testbed_moves import Place as Where
from testbed_moves import step

from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failover.triage_rules import Expected, Side, advise
from drlib.drill.plan.plan import Argument, Call, Drill, Mode, Rollback, Step
from drlib.drill.run.approvals import APPROVED_FILE
from drlib.drill.witness.evidence import GONE, Condition, Finding, Place, may_decide_alone
from drlib.drill.witness.login import login_of
from drlib.drill.witness.look import look_until_settled
from drlib.errors import ApprovalMissing
from drlib.lab.lab import Lab
from drlib.lab.workload.topics import TopicSpec, acknowledged, create_topics
from drlib.mirror.monitor.observer import FlowObserver, claimed_addresses
from drlib.model import Flow
from drlib.runs import journal
from drlib.runs.journal import JOURNAL

FLOW = Flow("paris", "lyon")
HOLD_S = 2.0


@dataclass(frozen=True)
class Site:
    lab: Lab
    here: Path  # over the link
    direct: Path
    worker: str
    witness: str

    def look(self, *witnesses: str, hold_s: float = HOLD_S) -> Finding:
        settings = load_mirror_settings(self.here)
        paris, lyon, login = settings.clusters["paris"], settings.clusters["lyon"], login_of(settings)
        return look_until_settled(paris, lyon, [self.worker], witnesses, hold_s=hold_s, login=login)

    def sees(self, place: Place) -> str:
        """What a place says now."""
        return next(str(view.source) for view in self.look(self.witness).views if view.place is place)

    def restore(self) -> None:
        self.lab.proxy.clear()
        paris = self.lab.clusters["paris"]
        if paris.alive:
            paris.resume()
        paris.start()
        wait_for("all reach it", lambda: all(str(v.source) == "answers" for v in self.look(self.witness).views), 120)


@contextmanager
def command(*arguments: str, stdout: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "drlib.cli", *arguments], stdout=stdout, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("witness")
    with Lab(folder / "lab", ("paris", "lyon")) as lab, ExitStack() as running:
        paris = lab.clusters["paris"]
        create_topics(paris.settings(), [TopicSpec("flights", 2)])
        with acknowledged(paris) as producer:
            producer.produce("flights", b"x")
        (folder / "secrets").write_text("witness = the token of this test\n")
        token = {"drlib.witness.token": f"${{file:{folder / 'secrets'}:witness}}"}
        here = lab.write_properties(folder / "here.properties", **token)
        addresses = token | {f"{a}.bootstrap.servers": c.bootstrap for a, c in lab.clusters.items()}
        direct = lab.write_properties(folder / "direct.properties", **addresses)
        # Not to a pipe that is never read: it fills up in the course of many faults, and the worker waits at its next line.
        running.enter_context(command("mirror", str(direct), "--metrics", "127.0.0.1:0", stdout=subprocess.DEVNULL))
        says = running.enter_context(command("witness", str(direct), "--at", "127.0.0.1:0"))
        assert says.stdout is not None
        found = re.search(r"at (127\.0\.0\.1:\d+)", says.stdout.readline())
        assert found is not None
        worker: list[str] = []

        def claimed() -> bool:
            settings, observer = load_mirror_settings(direct), FlowObserver()
            (survey,) = observer.survey_blocking([(settings, settings.flow(FLOW.source, FLOW.target))])
            worker[:] = claimed_addresses(survey).values()
            return bool(worker)

        wait_for("the worker says where it is", claimed)
        made = Site(lab, here, direct, worker[0], found[1])
        wait_for("all reach it", lambda: all(str(v.source) == "answers" for v in made.look(made.witness).views))
        yield made


def decide(automatic: bool, witness: str) -> Drill:
    arguments = {"approve": "automatic", "witnesses": (witness,), "confirm_s": 10.0} if automatic else {}
    waits = Step(name="fence", title="f", action=Call("source.fence", (Argument("probe_s", 2.0),)), approval=True)
    steps = (step("decide", "failover.triage", **arguments), waits)  # type: ignore[arg-type]
    return Drill(name="decides", flow=FLOW, mode=Mode.EMERGENCY, steps=steps, rollback=Rollback.NEVER)


def evidence(folder: Path) -> dict[str, object]:
    return next(dict(e.data) for e in journal.read(folder / JOURNAL) if e.event == "step-succeeded")


def test_network_that_is_cut_from_here_is_no_dead_cluster(site: Site, tmp_path: Path) -> None:
    assert site.look(site.witness).condition is Condition.SERVES
    for cut in ({"blackhole": True}, {"cut": True}):
        site.lab.proxy.set("paris", **cut)  # type: ignore[arg-type]
        finding = site.look(site.witness)
        assert finding.condition is Condition.CUT_OFF, str(finding)
        assert {view.place for view in finding.reached_from} == {Place.MIRROR, Place.WITNESS}
        site.lab.proxy.clear("paris")
    site.lab.proxy.set("paris", cut=True)
    place = Where(properties=str(site.here), source="paris", target="lyon")
    assert testbed_moves.in_process(tmp_path / "run", decide(True, site.witness), place) != 0
    failed = next(dict(e.data) for e in journal.read(tmp_path / "run" / JOURNAL) if e.event == "step-failed")
    assert "the network is cut, not the cluster" in str(failed["error"])
    assert not (tmp_path / "run" / APPROVED_FILE).exists()
    site.restore()


def test_dead_source_is_approved_by_a_machine_only_with_a_witness(site: Site, tmp_path: Path) -> None:
    site.lab.clusters["paris"].kill()
    try:
        finding = site.look(site.witness)
        assert finding.condition is Condition.DEAD, str(finding)
        assert finding.settled
        assert may_decide_alone(finding) == ""
        assert "no witness" in may_decide_alone(site.look())
        place = Where(properties=str(site.here), source="paris", target="lyon")
        assert testbed_moves.in_process(tmp_path / "person", decide(False, ""), place) == ApprovalMissing.exit_code
        assert testbed_moves.in_process(tmp_path / "run", decide(True, site.witness), place) == 0
        assert evidence(tmp_path / "run")["approved"] == "automatically: fence"
        assert "the witness" in (tmp_path / "run" / APPROVED_FILE).read_text()
    finally:
        site.restore()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_random_partitions_and_deaths_give_no_wrong_advice(site: Site, seed: int) -> None:
    random = Random(seed)
    paris = site.lab.clusters["paris"]
    cut = random.choice((None, None, {"blackhole": True}, {"cut": True}))
    fate = random.choice(("serves", "frozen", "killed"))
    witnesses = [site.witness] if random.random() < 0.5 else []
    try:
        if cut is not None:
            site.lab.proxy.set("paris", **cut)  # type: ignore[arg-type]
        if fate == "frozen":
            paris.pause()
        elif fate == "killed":
            paris.kill()
        finding = site.look(*witnesses)
        here = Side("paris", silence="no answer") if finding.condition is not Condition.SERVES else Side("paris", 1, 1)
        go = advise(here, Side("lyon", 1, 1), Expected.GONE, seen=finding).go
        assert go is (fate != "serves"), f"{fate}, {cut}: {finding.condition}: {finding}"
        assert (finding.condition in GONE and finding.settled) is (fate != "serves"), str(finding)
        assert (may_decide_alone(finding) == "") is (fate != "serves" and bool(witnesses)), str(finding)
        if fate == "serves":
            assert finding.condition is (Condition.SERVES if cut is None else Condition.CUT_OFF)
    finally:
        site.restore()
