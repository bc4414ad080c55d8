"""A share group with acknowledged records and gaps moves to another cluster: planned and back, by an undo, and in an emergency.

The tests run in their order: the last one kills LEFT.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import testbed_moves
from confluent_kafka import AcknowledgeType
from fix_engine import create_topic, wait_for
from testbed_moves import Place, step
from testbed_share_groups import Delivered, begin_at_earliest, consume, in_group, members_gone, write
from testbed_sync import value_at

from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.drill.actions.groups.rehearsal import CHECKPOINTS
from drlib.drill.actions.groups.share_groups import move as share_moves
from drlib.drill.actions.groups.share_groups.rules import REHEARSED, ShareMove
from drlib.drill.actions.groups.share_groups.served import wait_served
from drlib.drill.actions.groups.verify_rules import Seen
from drlib.drill.inventory.rules import Kind, Way
from drlib.drill.plan.plan import Mode, Rollback
from drlib.drill.readiness.observe.applications.applications import take_inventory
from drlib.drill.readiness.observe.share_groups import read_share_groups
from drlib.drill.run import registry
from drlib.drill.step import step_output as details
from drlib.drill.step.action import Evidence
from drlib.errors import Deviated
from drlib.kafka.share_groups import admin
from drlib.kafka.share_groups.names import RESET, SETTINGS
from drlib.kafka.share_groups.state import ShareState
from drlib.lab.lab import Lab
from drlib.lab.workload.topics import place_group
from drlib.mirror.share_groups.known import checkpointed_shares, read_shares, source_shares
from drlib.model import Flow, TopicPartition, TranslationKind
from drlib.runs import journal
from drlib.runs.abort import Abort
from drlib.runs.check import Verdict
from drlib.runs.journal import JOURNAL

TOPIC, MIRROR, GROUP = "orders", "LEFT.orders", "packers"
FLOW = Flow("LEFT", "RIGHT")
NOT_COPIED = [b"aborted-%d" % n for n in range(5)]
FIRST, SECOND = [b"a%02d" % n for n in range(20)], [b"b%02d" % n for n in range(20)]
LEFT_OVER = {b"a03", b"a04", b"a07", b"b05", *SECOND[12:]}
"""Released: the source delivers them again. One more is rejected, and all others are accepted."""


@dataclass(frozen=True)
class Mirrored:
    lab: Lab
    settings: MirrorSettings
    place: Place

    def at(self, alias: str) -> str:
        return self.lab.clusters[alias].bootstrap

    def state(self, alias: str, topic: str) -> ShareState | None:
        known = read_shares(self.settings.clusters[alias], {GROUP}.__contains__, 20.0)
        found = known.positions.get((GROUP, TopicPartition(topic, 0)))
        return None if found is None else found.state


def kept_moves(folder: Path) -> tuple[ShareMove, ...]:
    return share_moves.kept(folder, "RIGHT", "groups") or ()


def wave_verified(mirrored: Mirrored, folder: Path) -> Evidence:
    """What `wave.verify` sees of what the run in `folder` moved."""
    readers = (f"packing={GROUP}",)
    verify = step("wave", "wave.verify", wave="all", waves=("all: packing",), readers=readers, within_s=2.0)
    wanted = testbed_moves.drill(verify, mode=Mode.EMERGENCY)
    action = registry.parse_drill(wanted).bind(mirrored.place.workplace(folder))[0]["wave"]
    return action.act(action.changes(action.observe()), Abort(folder))


def acknowledged(value: bytes) -> AcknowledgeType:
    if value == b"a06":
        return AcknowledgeType.REJECT
    return AcknowledgeType.RELEASE if value in LEFT_OVER else AcknowledgeType.ACCEPT


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirrored]:
    lab = Lab(tmp_path_factory.mktemp("shared"), detach=True)
    try:
        lab.up()
        left = lab.clusters["LEFT"].bootstrap
        create_topic(left, TOPIC, 1)
        begin_at_earliest(left, GROUP)
        keys: dict[str, Any] = {f"{alias}.bootstrap.servers": c.bootstrap for alias, c in lab.clusters.items()}
        both: dict[str, Any] = {
            "RIGHT->LEFT.enabled": "true",
            "RIGHT->LEFT.topics": "orders",
            "drlib.metrics.address": "127.0.0.1:0",
        }
        file = lab.write_properties(topics="orders", **keys, **both)
        argv = [sys.executable, "-m", "drlib.cli", "mirror", str(file), "--status", str(lab.root / "status.json")]
        lab.registry.start("mirror-1", argv, log=lab.root / "mirror-1.log", die_with_parent=False)
        write(left, TOPIC, FIRST, aborted=NOT_COPIED)
        write(left, TOPIC, SECOND, aborted=NOT_COPIED)
        with in_group(left, GROUP, TOPIC) as consumer:
            consume(consumer, acknowledged, lambda seen: {*FIRST, *SECOND, *NOT_COPIED} <= seen.keys())
        wait_for("the member has left", lambda: members_gone(left, GROUP))
        yield Mirrored(lab, load_mirror_settings(file), Place(properties=str(file)))
    finally:
        lab.down()


def moved(mirrored: Mirrored, flow: Flow) -> tuple[ShareMove, ...]:
    """A planned move, once the mirror has what is to be translated."""

    def decided() -> tuple[ShareMove, ...]:
        return share_moves.decide_planned(mirrored.settings, flow, share_moves.Chosen({"planned"}.__contains__)).moves

    wait_for("every position is exact", lambda: {m.kind for m in decided()} == {TranslationKind.EXACT})
    return share_moves.write(mirrored.settings.clusters[flow.target], decided())


@pytest.mark.long
@pytest.mark.timeout(240)
def test_share_group_moves_as_planned_and_returns_with_what_it_acknowledged_there(mirrored: Mirrored) -> None:
    left, right = mirrored.at("LEFT"), mirrored.at("RIGHT")
    begin_at_earliest(left, "planned")
    released = {FIRST[3], FIRST[5], SECOND[7]}
    with in_group(left, "planned", TOPIC) as consumer:
        consume(
            consumer,
            lambda value: AcknowledgeType.RELEASE if value in released else AcknowledgeType.ACCEPT,
            lambda seen: {*FIRST, *SECOND} <= seen.keys(),
        )
    wait_for("the member has left", lambda: members_gone(left, "planned"))
    (there,) = moved(mirrored, FLOW)
    assert (there.carried, there.redelivered, there.left) == (True, 0, None)
    with in_group(right, "planned", MIRROR) as consumer:
        seen = consume(
            consumer,
            lambda value: AcknowledgeType.RELEASE if value == FIRST[5] else AcknowledgeType.ACCEPT,
            lambda seen: released <= seen.keys(),
        )
    assert seen.keys() == released  # the released one may be delivered again at once
    wait_for("the member has left", lambda: members_gone(right, "planned"))
    (back,) = moved(mirrored, FLOW.reverse)
    assert (back.target, back.carried, back.redelivered) == (TopicPartition(TOPIC, 0), True, 0)
    write(left, TOPIC, [b"home"])
    with in_group(left, "planned", TOPIC) as consumer:
        seen = consume(consumer, lambda _: AcknowledgeType.ACCEPT, lambda seen: b"home" in seen and FIRST[5] in seen)
    assert seen == {b"home": 1, FIRST[5]: 1}


@pytest.mark.long
@pytest.mark.timeout(240)
def test_rehearsal_checks_the_positions_of_share_groups_and_writes_none(mirrored: Mirrored, tmp_path: Path) -> None:
    place_group(mirrored.lab.clusters["LEFT"], "billing", {TopicPartition(TOPIC, 0): 4})
    shadow = testbed_moves.drill(step("shadow", "groups.shadow", positions_from="source"), mode=Mode.PRACTICE)
    assert testbed_moves.in_process(tmp_path, shadow, mirrored.place) == 0
    rows = {row["group"]: row for row in details.read_rows(tmp_path, "shadow")}
    assert rows[f"{GROUP} (share group)"]["left because"] == ""
    check, of_consumers = details.read_part(tmp_path, "shadow").checks
    assert (check.name, of_consumers.name) == (REHEARSED, CHECKPOINTS)
    assert (of_consumers.verdict, of_consumers.evidence) == (Verdict.UNKNOWN, "no position could be compared")
    behind = len({*FIRST, *SECOND} - LEFT_OVER) - 3
    assert f"{behind} acknowledged records behind" in check.evidence
    assert mirrored.state("RIGHT", MIRROR) is None
    (done,) = [line for line in journal.read(tmp_path / JOURNAL) if line.event == "step-succeeded"]
    assert dict(done.data)["share_partitions"]


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("leave", [(), (".*",)])
def test_share_groups_that_cannot_be_moved_are_left_and_the_others_move(
    mirrored: Mirrored, tmp_path: Path, leave: tuple[str, ...]
) -> None:
    source, target = mirrored.settings.clusters["LEFT"], mirrored.settings.clusters["RIGHT"]
    here, there = TopicPartition(TOPIC, 0), TopicPartition(MIRROR, 0)
    names = {GROUP, "ahead", "busy"}
    for group in ("ahead", "busy"):
        admin.set_starts(source, group, {here: 3}, 20.0)
    admin.set_starts(target, "ahead", {there: 9}, 20.0)
    begin_at_earliest(mirrored.at("RIGHT"), "busy")

    def kept() -> set[str]:
        return {group for group, _ in checkpointed_shares(mirrored.settings, FLOW).positions}

    wait_for("the target keeps what all of them have read", lambda: names <= kept())
    translate = step("translate", "groups.translate", positions_from="target", groups=tuple(names), leave=leave)
    with in_group(mirrored.at("RIGHT"), "busy", MIRROR):
        wait_for("it has a member", lambda: not members_gone(mirrored.at("RIGHT"), "busy"))
        wanted = testbed_moves.drill(translate, mode=Mode.EMERGENCY, rollback=Rollback.ALWAYS)
        assert testbed_moves.in_process(tmp_path, wanted, mirrored.place) == 0
    rows = {row["group"]: row["left because"] for row in details.read_rows(tmp_path, "translate")}
    assert rows == {
        f"{GROUP} (share group)": "",
        "ahead (share group)": "it is at 9 there, further ahead: the group was used there",
        "busy (share group)": "its group is left: it has members there, which own its positions",
    }
    (done,) = [line for line in journal.read(tmp_path / JOURNAL) if line.event == "step-succeeded"]
    evidence = dict(done.data)
    assert (evidence["share_groups"], evidence["share_left"], evidence["share_redelivered_predicted"]) == (3, 2, None)
    assert evidence["share_acknowledged_carried"]  # of the one that was moved
    (check,) = details.read_part(tmp_path, "translate").checks
    assert check.verdict is Verdict.CONDITIONS
    assert "busy" in check.evidence
    assert share_moves.read_states(target, ["ahead"])["ahead", there].start == 9
    assert mirrored.state("RIGHT", MIRROR) is None  # the drill took back what it had written


@pytest.mark.long
@pytest.mark.timeout(240)
def test_share_group_moves_in_an_emergency_with_its_acknowledged_records(mirrored: Mirrored, tmp_path: Path) -> None:
    key = (GROUP, TopicPartition(TOPIC, 0))

    def kept() -> ShareState | None:
        found = checkpointed_shares(mirrored.settings, FLOW).positions.get(key)
        return None if found is None else found.state

    now = source_shares(mirrored.settings, FLOW, 20.0).positions[key].state
    assert now.complete
    wait_for("the target keeps what the group has read", lambda: kept() == now)
    flow = mirrored.settings.flow("LEFT", "RIGHT")
    known = read_share_groups(mirrored.settings, flow, source_answers=True, timeout_s=20.0)
    seen_by_doctor = {each.group: each for each in known.groups}[GROUP]
    assert known.may_write
    assert (seen_by_doctor.acknowledged, seen_by_doctor.known) == (now.completed, True)
    assert (seen_by_doctor.here[RESET], seen_by_doctor.there[RESET]) == ("earliest", "latest")
    assert set(seen_by_doctor.here) == set(seen_by_doctor.there) == set(SETTINGS)  # the brokers know all of them
    rows = {row.name: row for row in take_inventory(mirrored.settings, [flow])[0].applications if row.cluster == "LEFT"}
    assert (rows[GROUP].kind, rows[GROUP].topics, rows[GROUP].way) == (Kind.SHARE, (TOPIC,), Way.EITHER)
    printed = subprocess.run(
        [
            sys.executable,
            "-m",
            "drlib.cli",
            "translate",
            mirrored.place.properties,
            "--flow",
            str(FLOW),
            "--group",
            GROUP,
            "--json",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    (shown,) = json.loads(printed.stdout)
    assert (shown["share_group"], shown["position"], shown["kind"]) == (GROUP, now.start, "exact")
    assert sum(end - first for first, end in shown["acknowledged"]) == len({*FIRST, *SECOND} - LEFT_OVER) - 3
    translate = step("translate", "groups.translate", positions_from="target", groups=(GROUP,))
    verify = step("verify", "groups.verify", groups=(GROUP,), members_s=0.0)
    planned = testbed_moves.drill(translate, rollback=Rollback.ALWAYS)
    undone = tmp_path / "undone"
    undone.mkdir()
    assert testbed_moves.in_process(undone, planned, mirrored.place) == 0
    assert mirrored.state("RIGHT", MIRROR) is None  # taken back

    mirrored.lab.clusters["LEFT"].kill()
    without = read_share_groups(mirrored.settings, flow, source_answers=False, timeout_s=20.0)
    assert {each.group: each.acknowledged for each in without.groups}[GROUP] == now.completed
    folder = tmp_path / "run"
    folder.mkdir()
    assert (
        testbed_moves.in_process(folder, testbed_moves.drill(translate, verify, mode=Mode.EMERGENCY), mirrored.place)
        == 0
    )
    (row,) = details.read_rows(folder, "translate")
    assert (row["group"], row["reads again at most"]) == (f"{GROUP} (share group)", 0)
    done, verified = [line for line in journal.read(folder / JOURNAL) if line.event == "step-succeeded"]
    assert f"share group {GROUP}: it has no members; " in str(verified.data["not_observed"])
    evidence = dict(done.data)
    assert evidence["share_groups"] == 1
    assert evidence["share_redelivered_predicted"] == evidence["share_redelivered_by_the_target"] == 0
    assert (
        evidence["share_acknowledged_carried"] == len({*FIRST, *SECOND} - LEFT_OVER) - 3
    )  # the start offset is behind three
    begun = mirrored.state("RIGHT", MIRROR)
    assert begun is not None
    assert value_at(mirrored.at("RIGHT"), MIRROR, begun.start) == b"a03"  # another offset than on the source

    with pytest.raises(Deviated, match=f"group {GROUP} reads on on RIGHT; seen within 2 s: it has no members"):
        wave_verified(mirrored, folder)
    with in_group(mirrored.at("RIGHT"), GROUP, MIRROR) as consumer:
        write(mirrored.at("RIGHT"), MIRROR, [b"last"])  # nothing comes behind it
        seen: Delivered = consume(
            consumer, lambda _: AcknowledgeType.ACCEPT, lambda seen: {*LEFT_OVER, b"last", b"home"} <= seen.keys()
        )
    assert seen == dict.fromkeys({*LEFT_OVER, b"last", b"home"}, 1)
    assert wave_verified(mirrored, folder)["share_groups_served"] == 1
    (check,) = details.read_part(folder, "wave").checks
    assert (check.verdict, check.evidence) == (Verdict.PASS, "1 of 1 observed")
    (served,) = wait_served(
        mirrored.settings.clusters["RIGHT"], kept_moves(folder), 0.0, Abort(folder)
    ).verdicts.values()
    assert served.seen is Seen.SERVED
