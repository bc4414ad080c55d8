"""A watch whose looks stay short: a group whose coordinator does not answer holds up no other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.groups import verify
from drlib.drill.actions.groups.decided import write as write_decided
from drlib.drill.actions.groups.verify import VerifyGroups, Watch
from drlib.drill.actions.groups.verify_rules import Seen
from drlib.drill.plan.plan import Call
from drlib.drill.run.registry import make_action
from drlib.drill.step.context import DrillContext
from drlib.drill.step.step_output import read_part
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, GroupDescription, GroupMember
from drlib.kafka.admin.group_offsets import Positions
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.check import Verdict

AT = TopicPartition("orders", 0)
LOST = Unreachable("the coordinator does not answer", "its broker is down", "Start it.")


class Target:
    """Two groups, of which the coordinator of `lost` does not answer until it is `back`; its clock stands but for that."""

    def __init__(self) -> None:
        self.at_s, self.each_s, self.read = 0.0, 20.0, 5
        self.back = False
        self.asked: list[set[str]] = []

    def within(self, timeout_s: float) -> Target:
        self.each_s = timeout_s
        return self

    def committed(self, groups: Collection[str]) -> Mapping[str, Positions | DrlibError]:
        self.asked.append(set(groups))
        if "lost" in groups and not self.back:
            self.at_s += self.each_s
        here = {AT: CommittedOffset(self.read, "")}
        return {group: LOST if group == "lost" and not self.back else here for group in groups}

    def group_descriptions(self, groups: Collection[str]) -> Mapping[str, GroupDescription]:
        assert self.back or "lost" not in groups
        return dict.fromkeys(groups, GroupDescription("STABLE", (GroupMember("m", "h", (AT,), "c"),)))

    def log_ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 100)

    def topics(self, names: Collection[str]) -> Mapping[str, object]:
        return {}

    def led(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, bool]:
        return dict.fromkeys(partitions, True)

    def groups(self) -> tuple[object, ...]:
        return ()


@pytest.mark.parametrize(
    ("decided", "why"), [(True, "no position of any group was known"), (False, "an earlier run moved the applications")]
)
def test_verify_of_a_run_that_moved_no_group_is_no_pass_and_ends_no_run(
    tmp_path: Path, decided: bool, why: str
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:2\n")
    clusters = load_mirror_settings(path).clusters
    context = DrillContext(clusters=clusters, flow=Flow("A", "B"), run_dir=tmp_path, properties=path)
    step = make_action(Call("groups.verify", ()), context, "verify")
    assert isinstance(step, VerifyGroups)
    if decided:
        write_decided(tmp_path, "B", ())
    assert step.act((), Abort(tmp_path))["groups"] == 0
    (check,) = read_part(tmp_path, "verify").checks
    assert (check.verdict, check.evidence) == (Verdict.CONDITIONS, f"not checked: {why}")


def test_look_at_the_others_does_not_wait_for_a_group_whose_coordinator_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target()
    monkeypatch.setattr(verify, "time", SimpleNamespace(monotonic=lambda: target.at_s))
    context, flow = SimpleNamespace(run_dir=tmp_path), SimpleNamespace(target="B")
    action = SimpleNamespace(written=(), not_read=(), deadline_s=60, members_s=30, context=context, flow=flow)
    watch = Watch(cast(VerifyGroups, action), cast(Cluster, target), (), also=("lost", "other"))
    watch.begin()
    assert target.at_s == verify._ANSWER_S
    target.read = 7
    while target.at_s < verify._ANSWER_S + verify._AGAIN_S:
        assert not watch.look()
        target.at_s += 1
    assert watch.served.keys() == {"other"}
    assert target.asked[1:] == [{"other"}] * 10
    assert watch.took_s == 0
    assert not watch.look()
    assert target.asked[-1] == {"lost", "other"}
    assert watch.took_s == 0, "the pause to the next look is not made longer"
    assert watch.verdicts["lost"].seen is Seen.UNKNOWN
    assert LOST.why in watch.verdicts["lost"].detail
    target.back = True
    target.at_s += verify._AGAIN_S
    watch.look()
    assert watch.verdicts["lost"].seen is not Seen.UNKNOWN
