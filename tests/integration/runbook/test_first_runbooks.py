"""`drlib init` on two real clusters with a mirror: what it learns of groups and producers, and what it leaves alone."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from fix_engine import Engine, commit, create_topic, produce, wait_for

from drlib.config.replication_policy import DEFAULT, IDENTITY
from drlib.config.settings import load_mirror_settings
from drlib.drill.readiness.role import Role
from drlib.drill.testbed.lab_roles import grant_roles
from drlib.lab.brokers.security import ADMIN, MODES
from drlib.lab.lab import Lab
from drlib.lab.workload.topics import TopicSpec, create_topics, place_group
from drlib.model import Flow, TopicPartition
from drlib.runbook.file import model
from drlib.runbook.first_runbooks import observation, observe
from drlib.runbook.first_runbooks.observation import FlowFacts
from drlib.runs.scorecard import Objectives


@pytest.fixture
def paris(engine: Engine) -> Iterator[Engine]:
    """A mirrored topic of paris, with a group that has a member, and one that has committed offsets only."""
    tag = engine.source.removeprefix("SRC")
    engine.source, engine.target = f"paris{tag}", f"lyon{tag}"
    engine.extra = {
        "drlib.metrics.address": "127.0.0.1:0",
        "emit.heartbeats.enabled": "false",
        "groups": f"{engine.topics}.*",
    }
    create_topic(engine.left, engine.topics, 2)
    produce(engine.left, engine.topics, 40, partitions=2)
    commit(engine.left, f"{engine.topics}.search", engine.topics, 5)
    engine.start()
    engine.wait_caught_up(engine.topics, 2)
    member = Consumer(
        {
            "bootstrap.servers": engine.left,
            "group.id": f"{engine.topics}.billing",
            "client.id": "billing-1",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    member.subscribe([engine.topics])
    wait_for("the member is assigned both partitions", lambda: bool(member.poll(0.2)) and len(member.assignment()) == 2)
    yield engine
    member.close()


def drlib(*arguments: object, cwd: Path, code: int = 0) -> str:
    argv = [sys.executable, "-m", "drlib.cli", *map(str, arguments)]
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout[-6000:] + done.stderr[-6000:]
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.timeout(180)
def test_init_writes_runbooks_that_can_be_planned_and_replaces_no_edited_one(paris: Engine, tmp_path: Path) -> None:
    file, folder, topic = paris.properties, paris.root / "runbooks", paris.topics
    flow = f"{paris.source}->{paris.target}"

    settings = load_mirror_settings(file)
    (facts,) = observation.facts(settings, observe.observe(settings))
    assert facts.complete
    assert facts.mirrored == {topic: f"{paris.source}.{topic}"}
    assert facts.applications is not None
    assert [(each.name, each.members, each.clients, each.topics) for each in facts.applications] == [
        (f"{topic}.billing", 1, ("billing-1",), (topic,)),
        (f"{topic}.search", 0, (), (topic,)),
    ]
    assert (facts.written, facts.transactional, facts.missing) == ((topic,), (), (topic,))
    assert facts.source.authorizer is False
    assert facts.source.unknown == facts.target.unknown == ()

    said = drlib("init", file, "--rto", "5m", cwd=tmp_path)
    assert f"{flow}: 1 mirrored topics, 2 consumer groups, 1 topics with idempotent producers" in said
    assert f"{flow}: not ready, score " in said or f"{flow}: ready, score " in said
    failover = folder / "failover.yaml"
    assert model.load(failover).objectives == Objectives(rto_seconds=300)
    assert f"{topic}.billing: 1 member, client ids billing-1, reads {topic}" in failover.read_text()
    assert f"missing on {paris.target} when this was written: {topic}" in failover.read_text()

    for name in ("rehearse", "failover"):
        planned = drlib("plan", folder / f"{name}.yaml", file, "--runs-dir", tmp_path / "planned", cwd=tmp_path)
        assert "Run it: drlib run --plan " in planned

    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    again = drlib("init", file, cwd=tmp_path)
    assert "nothing to write" in again
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before

    failover.write_text(failover.read_text() + "# mine\n")
    kept = drlib("init", file, "--rto", "10m", cwd=tmp_path)
    assert "kept, as it was edited since drlib init wrote it: " in kept
    assert failover.read_text().endswith("# mine\n")


def at_a_terminal(file: Path, answer: str) -> tuple[int, str]:
    """`drlib init` with a terminal as its standard input, at which `answer` is typed: its exit code and what it said."""
    terminal, end = pty.openpty()
    try:
        argv = [sys.executable, "-m", "drlib.cli", "init", str(file), "--rto", "5m"]  # objectives are not asked for
        process = subprocess.Popen(
            argv, cwd=file.parent, stdin=end, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        os.write(terminal, f"{answer}\n".encode())
        said, _ = process.communicate(timeout=120)
    finally:
        os.close(terminal)
        os.close(end)
    assert "Traceback" not in said
    return process.returncode, said


@pytest.mark.long
@pytest.mark.timeout(180)
def test_names_are_asked_for_at_a_terminal_and_the_file_is_left_to_its_owner(engine: Engine, tmp_path: Path) -> None:
    create_topic(engine.left, engine.topics, 1)
    file = tmp_path / "mm2.properties"
    text = (
        f"clusters = paris, lyon\nparis.bootstrap.servers = {engine.left}\nlyon.bootstrap.servers = {engine.right}\n"
        f"paris->lyon.enabled = true\ntopics = {engine.topics}\n"
    )
    file.write_text(text)

    code, said = at_a_terminal(file, "identical")
    assert code == 2
    assert "  prefixed: orders of paris is paris.orders on lyon. Cost: " in said
    assert "Recommended: identical, as lyon stands by" in said
    lines = (f"replication.policy.class = {IDENTITY}", "paris->lyon.enabled = true", "lyon->paris.enabled = true")
    assert f"write into it: {'; '.join(lines)}." in said
    assert not (tmp_path / "runbooks").exists()

    code, said = at_a_terminal(file, "prefixed")
    assert code == 0
    assert f"does not ask again: replication.policy.class = {DEFAULT}" in said
    assert (tmp_path / "runbooks" / "failover.yaml").exists()
    assert file.read_text() == text

    file.write_text(text + "\n".join(lines) + "\n")
    code, said = at_a_terminal(file, "nothing is asked")
    assert code == 0
    assert "paris->lyon: names are identical, in both directions (replication.policy.class in line 6)." in said
    assert "How are mirror topics to be named" not in said


def test_secured_clusters_are_asked_and_a_user_who_is_not_shown_all_groups_knows_none(tmp_path: Path) -> None:
    with Lab(tmp_path / "lab", ("paris", "lyon"), security=MODES["scram"]) as lab:
        paris = lab.clusters["paris"]
        create_topics(paris.settings(), [TopicSpec("flights", 1), TopicSpec("heartbeats", 1)])
        wait_for("the group is there", lambda: place_group(paris, "billing", {TopicPartition("flights", 0): 0}))
        of = {
            user: load_mirror_settings(lab.write_properties(tmp_path / f"{user}.properties", user=user))
            for user in (ADMIN, "audit", "drill")
        }
        grant_roles({Role.DRILL: tmp_path / "drill.properties"}, Flow("paris", "lyon"), lab.clusters)

        def seen_by(user: str) -> FlowFacts:
            return observation.facts(of[user], observe.observe(of[user]))[0]

        wait_for("its rights are in effect", lambda: not seen_by("drill").source.unknown)
        admin, audit, drill = map(seen_by, of)
    assert admin.complete
    assert admin.source.authorizer is True
    assert list(admin.mirrored) == ["flights"]
    assert [each.name for each in admin.applications or ()] == ["billing"]
    assert not audit.complete
    assert audit.applications is None
    assert audit.written is None
    assert any("may lack Describe on the cluster" in why for why in audit.source.unknown)
    assert audit.source.authorizer is True
    assert drill.written == ()  # its rights are those of doctor FILE --rights: none to read heartbeats
