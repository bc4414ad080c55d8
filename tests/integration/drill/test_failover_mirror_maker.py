"""Flows that the real MirrorMaker 2 mirrors: seen, rehearsed, and failed over when it is killed together with the source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fix_engine import create_topic, produce, read_all, wait_for
from repository_root import ROOT
from testbed_mirror_maker import FLOW, GROUP, IDENTITY, PARTITIONS, TOPIC, Night, commit_at, read_on

from bench.mirror_maker import MirrorMaker2
from drlib import publish_pointer
from drlib.lab.lab import Lab

pytestmark = [pytest.mark.mm2, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with Lab(tmp_path / "lab", ("paris", "lyon")) as lab:
        yield Night(tmp_path, lab)


def assert_nothing_skipped(night: Night, positions: Mapping[int, int], read: Mapping[int, list[int]]) -> int:
    """Each record behind the group's position that is on the mirror was read; how many before it were read again."""
    again = 0
    for number, records in read_all(night.lyon, night.mirror, PARTITIONS).items():
        there = {int(dict(headers)["n"]) for _, _, headers, _ in records}
        behind = {n for n in there if n // PARTITIONS >= positions[number]}
        assert behind <= set(read[number]), sorted(behind - set(read[number]))[:5]
        again += sum(n // PARTITIONS < positions[number] for n in read[number])
    return again


def predicted(card: Mapping[str, object]) -> int:
    groups = card["groups"]
    assert isinstance(groups, list)
    (group,) = groups
    assert group["group"] == GROUP
    at_most = group["re_read_at_most"]
    assert isinstance(at_most, int)
    return at_most


def test_flow_of_mirror_maker_is_seen_rehearsed_and_failed_over(night: Night) -> None:
    """Its defaults: offset syncs on the source, which dies with it, so that positions are those of the checkpoints."""
    create_topic(night.paris, TOPIC, PARTITIONS)
    produce(night.paris, TOPIC, 3000, partitions=PARTITIONS)
    positions = {0: 1234, 1: 1490}
    commit_at(night.paris, positions)
    maker = MirrorMaker2(night.root / "mm2", night.file)
    maker.start()
    wait_for("the records are copied", night.copied(3000), 90)
    wait_for("the group has checkpoints", night.checkpointed(positions), 60)
    publish_pointer(night.file, "paris")

    seen = json.loads(night.drlib("status", night.file, "--groups", "--json", code=0))
    (view,) = seen
    assert view["state"] == "mirrored by MirrorMaker 2"
    assert view["lag_at_least"] == 0
    assert 0 <= view["lag"] <= 300
    (group,) = view["groups"]
    assert (group["group"], group["partitions"], group["read_again"] <= 200) == (GROUP, 2, True)
    doctor = " ".join(night.drlib("doctor", night.file, code=0).split())
    assert "mirrored by MirrorMaker 2: its last heartbeat is" in doctor
    assert "taken over by drlib mirror" in doctor
    night.drlib("run", ROOT / "runbooks/rehearse-failover.yaml", night.file, "--runs-dir", night.root / "runs", code=0)
    (run,) = (night.root / "runs").iterdir()
    card = json.loads((run / "scorecard.json").read_text())
    (group,) = card["groups"]
    assert 0 < group["re_read"] <= group["re_read_at_most"] <= 200
    assert card["verdict"] == "pass", card["checks"]

    maker.kill()
    produce(night.paris, TOPIC, 200, partitions=PARTITIONS, first=3000)  # never mirrored
    night.lab.clusters["paris"].kill()
    seen = json.loads(night.drlib("status", night.file, "--groups", "--json", code=3))
    assert seen[0]["lag"] is None
    assert "does not keep where the logs ended" in seen[0]["loses_at_most"]
    assert seen[0]["emergency_gate"] == "open"
    said = night.drlib("failover", night.file, "--yes", "lyon", "--runs-dir", night.root / "runs", code=7)
    assert "UNKNOWN_TOPIC_OR_PARTITION" not in said
    again = assert_nothing_skipped(night, positions, read_on(night))
    assert again <= predicted(night.scorecard())


def test_failover_with_syncs_on_the_target_stale_checkpoints_and_records_copied_twice_skips_nothing(
    night: Night,
) -> None:
    """Names are kept; MirrorMaker 2 was killed and copied records again; the group read on after its last checkpoint."""
    night.keys |= {
        "replication.policy.class": IDENTITY,
        "offset-syncs.topic.location": "target",
        "offset.lag.max": "50",
        # A topic of heartbeats that appears restarts the tasks, which commits their offsets: nothing would be copied again.
        "heartbeats.replication.enabled": "false",
    }
    create_topic(night.paris, TOPIC, PARTITIONS)
    produce(night.paris, TOPIC, 2000, partitions=PARTITIONS)
    early = {0: 310, 1: 422}
    commit_at(night.paris, early)
    maker = MirrorMaker2(night.root / "mm2", night.file)
    maker.start()
    wait_for("the records are copied", night.copied(2000), 90)
    wait_for("the group has checkpoints", night.checkpointed(early), 60)
    maker.kill()
    produce(night.paris, TOPIC, 600, partitions=PARTITIONS, first=2000)
    maker.start()
    wait_for("all records are copied, the first ones twice", night.copied(4600), 120)
    maker.kill()
    late = {0: 1111, 1: 1299}
    commit_at(night.paris, late)
    publish_pointer(night.file, "paris")
    translated = json.loads(night.drlib("translate", night.file, "--flow", str(FLOW), "--json", code=0))
    mirror = read_all(night.lyon, night.mirror, PARTITIONS)
    for row in translated:  # while paris answers, by its own positions
        number, offset = row["partition"], row["offset"]
        assert row["position"] == late[number]
        behind = {int(dict(headers)["n"]) for _, _, headers, _ in mirror[number][offset:]}
        assert {n for n in range(number, 2600, PARTITIONS) if n // PARTITIONS >= late[number]} <= behind
        assert (
            sum(int(dict(h)["n"]) // PARTITIONS < late[number] for _, _, h, _ in mirror[number][offset:])
            <= row["records"]
        )
    night.lab.clusters["paris"].kill()
    night.drlib("failover", night.file, "--yes", "lyon", "--runs-dir", night.root / "runs", code=7)
    again = assert_nothing_skipped(night, late, read_on(night))
    assert 0 < again <= predicted(night.scorecard())


def test_failover_without_checkpoints_is_advised_against_and_moves_the_applications_when_forced(night: Night) -> None:
    night.keys |= {"emit.checkpoints.enabled": "false", "offset-syncs.topic.location": "target"}
    create_topic(night.paris, TOPIC, PARTITIONS)
    produce(night.paris, TOPIC, 1000, partitions=PARTITIONS)
    positions = {0: 333, 1: 20}
    commit_at(night.paris, positions)
    maker = MirrorMaker2(night.root / "mm2", night.file)
    maker.start()
    wait_for("the records are copied", night.copied(1000), 90)
    publish_pointer(night.file, "paris")
    (view,) = json.loads(night.drlib("status", night.file, "--groups", "--json", code=0))
    (group,) = view["groups"]
    assert (group["group"], group["partitions"], group["read_again"] <= 200) == (GROUP, 2, True)
    assert "no position of any group would be known" in " ".join(night.drlib("doctor", night.file, code=0).split())
    maker.kill()
    night.lab.clusters["paris"].kill()
    runs = ("--runs-dir", night.root / "runs")
    said = " ".join(night.drlib("failover", night.file, "--yes", "lyon", *runs, code=3).split())
    assert "no position of any group is known" in said
    reason = ("--force-reason", "producers first")
    night.drlib("failover", night.file, "--yes", "lyon", *reason, *runs, code=7)
    card = night.scorecard()
    assert card["groups"] == []
    checks = card["checks"]
    assert isinstance(checks, list)
    assert any("no position of any group was known" in check["evidence"] for check in checks)
