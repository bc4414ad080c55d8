"""Where an unfinished run continues, as its folder says; by which topics of the target it is judged."""

import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failover.triage import Triage
from drlib.drill.actions.failover.triage_rules import side_of
from drlib.drill.assessment import observe, observe_return
from drlib.drill.step.context import DrillContext
from drlib.errors import Unreachable
from drlib.kafka.admin.reachability import ClusterService
from drlib.kafka.net.cluster_client import Broker, ClusterMetadata, PartitionMetadata, TopicMetadata
from drlib.mirror.journal.entries import TopicNames
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.model import Flow

FLOW = Flow("paris", "lyon")
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
FILE = """clusters = paris, lyon
paris.bootstrap.servers = p:1
lyon.bootstrap.servers = l:1
paris->lyon.enabled = true
paris->lyon.topics = orders
"""


def topic(name: str, leader: int) -> TopicMetadata:
    return TopicMetadata(name, uuid.uuid4(), 0, {0: PartitionMetadata(0, leader, 1, (1, 2), (leader,), 0)}, False)


def cluster(leaders: Mapping[str, int]) -> ClusterMetadata:
    topics = {name: topic(name, leader) for name, leader in leaders.items()}
    return ClusterMetadata("id", 1, {1: Broker(1, "l", 1)}, topics)


def test_deadlines_of_questions_begin_once_the_process_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is imported meanwhile takes seconds of a busy host, and a source that refuses connections answers at once."""
    (tmp_path / "mirror.properties").write_text(FILE)
    order: list[str] = []

    class Asked(Exception):
        pass

    def who_answers(*_: object, **__: object) -> dict[str, Unreachable]:
        order.append("who answers")
        return {alias: Unreachable(alias, "it refuses connections", "Start it.") for alias in ("paris", "lyon")}

    def asked(*_: object, **__: object) -> None:
        order.append("asked")
        raise Asked

    monkeypatch.setattr(observe, "who_answers", who_answers)
    for question in ("observed", "examine"):
        monkeypatch.setattr(observe, question, asked)
    settings = load_mirror_settings(tmp_path / "mirror.properties")
    with pytest.raises(Asked):
        observe.observe(settings, FLOW, tmp_path, ready=lambda: order.append("ready"))
    assert order == ["who answers", "ready", "asked", "asked"]


def test_next_step_of_a_folder_without_a_plan_is_unknown(tmp_path: Path) -> None:
    assert observe.next_step(tmp_path) == ""


@pytest.mark.parametrize(
    ("policy", "mirror", "others"),
    [
        (f"replication.policy.class = {IDENTITY}", "orders", ("scratch", "lyon-only")),
        ("", "paris.orders", ("paris.retired", "scratch")),
    ],
)
def test_target_is_judged_by_mirrors_of_mirrored_topics_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, mirror: str, others: tuple[str, ...]
) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(FILE + policy)
    settings = load_mirror_settings(file)
    triage = Triage().bind(DrillContext(clusters={}, flow=FLOW, run_dir=tmp_path, properties=file), "decide")
    for serves, leaders in (
        (True, {mirror: 1, **dict.fromkeys(others, -1)}),
        (False, {mirror: -1, **dict.fromkeys(others, 1)}),
    ):
        found = cluster(leaders)
        monkeypatch.setattr(observe_return, "examine", lambda *_, found=found: {FLOW.target: ClusterService(found)})
        for topics in (observe._topics(settings, FLOW, FLOW.target, found), triage._topics(FLOW.target, found)):
            assert side_of(FLOW.target, ClusterService(found), topics).serves is serves
        assert observe_return._side(settings, FLOW).serves is serves


@pytest.mark.parametrize(
    ("on_source", "journaled", "error", "serves"),
    [
        (["orders"], [], "", True),  # scratch is a topic of lyon's own
        ([], ["orders"], "", True),
        (["orders"], ["scratch"], "", False),  # paris lost it, and lyon has its mirror
        ([], [], "", False),  # it may be a mirror
        ([], ["orders"], "no answer", False),
        (["heartbeats"], [], "", False),
    ],
)
def test_identical_names_prove_no_mirror_where_the_source_or_the_journal_says_what_is_mirrored(
    tmp_path: Path, on_source: list[str], journaled: list[str], error: str, serves: bool
) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(FILE.replace("topics = orders", "topics = .*") + f"replication.policy.class = {IDENTITY}")
    found = cluster({"orders": 1, "paris.heartbeats": 1, "scratch": -1, "__consumer_offsets": 1})
    triage = Triage().bind(DrillContext(clusters={}, flow=FLOW, run_dir=tmp_path, properties=file), "decide")
    ids = {name: uuid.uuid4() for name in journaled}
    names = {ids[name]: TopicNames(ids[name], name, name, uuid.uuid4()) for name in journaled}
    survey = Survey(str(FLOW), 0, 1, target_error=error, maps=Maps(names=names))
    topics = {FLOW.source: on_source, FLOW.target: triage._topics(FLOW.target, found)}
    assert side_of(FLOW.target, ClusterService(found), triage._judged(topics, survey)).serves is serves
