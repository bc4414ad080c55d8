"""Which topics two flows copy in both directions, and what is refused for them."""

from pathlib import Path

import pytest

from drlib.config.both_ways.shared_topics import (
    TopicsShared,
    all_shared,
    keeps_names_both_ways,
    refuse_partly_shared,
    refuse_shared_topics,
    shared_topics,
    shares_every_topic,
)
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.drill.actions.applications.create_topics import CreateTopics
from drlib.drill.actions.applications.deny_rules import ANY_PRINCIPAL
from drlib.drill.actions.applications.fence_source import FenceSource
from drlib.drill.actions.applications.move_pointer import MovePointer
from drlib.drill.actions.failback.actions import TranslateBack, VerifyWorkers, WaitCaughtUp
from drlib.drill.actions.failback.groups_left import GroupsLeft
from drlib.drill.actions.failback.returned import SourceReturned
from drlib.drill.actions.failback.switchover import MoveApplications
from drlib.drill.actions.failback.unreplicated_actions import ListTail, SettleTail
from drlib.drill.actions.failover.drain import DrainMirror
from drlib.drill.actions.failover.triage import Triage
from drlib.drill.actions.groups.rehearsal import ReadCanary
from drlib.drill.actions.groups.translate import TranslateGroups
from drlib.drill.actions.groups.verify import VerifyGroups
from drlib.drill.step.action import DrillAction
from drlib.drill.step.context import DrillContext
from drlib.errors import UsageError
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.model import Flow

THERE, BACK = Flow("LEFT", "RIGHT"), Flow("RIGHT", "LEFT")
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
DEFAULT = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
BOTH = "LEFT->RIGHT.enabled = true\nRIGHT->LEFT.enabled = true\n"


def load(tmp_path: Path, text: str, clusters: str = "LEFT, RIGHT") -> MirrorSettings:
    path = tmp_path / "mm2.properties"
    names = clusters.split(", ")
    servers = "".join(f"{name}.bootstrap.servers = 127.0.0.1:{9092 + n}\n" for n, name in enumerate(names))
    path.write_text(f"clusters = {clusters}\n{servers}{text}")
    return load_mirror_settings(path)


def both(settings: MirrorSettings) -> bool:
    there, back = settings.flow("LEFT", "RIGHT"), settings.flow("RIGHT", "LEFT")
    return keeps_names_both_ways(there, back, settings.flows)


@pytest.mark.parametrize(
    ("others", "kept"),
    [
        ((), True),
        (("RIGHT->THIRD",), True),
        (("RIGHT->THIRD", "THIRD->FOURTH"), True),
        (("RIGHT->THIRD", "LEFT->FOURTH"), True),
        (("THIRD->RIGHT",), False),  # its copies bear no claim of the pair
        (("RIGHT->THIRD", "THIRD->RIGHT"), False),
        (("LEFT->THIRD", "RIGHT->THIRD"), False),  # by two ways
        (("RIGHT->THIRD", "THIRD->FOURTH", "FOURTH->LEFT"), False),
        (("THIRD->FOURTH", "FOURTH->THIRD"), True),
    ],
)
def test_names_are_kept_both_ways_beside_flows_that_only_read_the_pair(
    tmp_path: Path, others: tuple[str, ...], kept: bool
) -> None:
    more = "".join(f"{flow}.enabled = true\n" for flow in others)
    assert both(load(tmp_path, IDENTITY + BOTH + more, "LEFT, RIGHT, THIRD, FOURTH")) is kept
    prefixed = "".join(f"{flow}.replication.policy.class = {DEFAULT}\n" for flow in others)
    assert both(load(tmp_path, IDENTITY + BOTH + more + prefixed, "LEFT, RIGHT, THIRD, FOURTH")), (
        "names tell these copies"
    )


def test_names_are_kept_both_ways_by_two_enabled_flows(tmp_path: Path) -> None:
    assert both(load(tmp_path, IDENTITY + BOTH))
    assert not both(load(tmp_path, BOTH))
    assert not both(load(tmp_path, IDENTITY + "LEFT->RIGHT.enabled = true\n"))
    assert both(load(tmp_path, IDENTITY + BOTH, "LEFT, RIGHT, THIRD"))


def test_topics_are_shared_if_both_flows_select_them(tmp_path: Path) -> None:
    settings = load(tmp_path, IDENTITY + BOTH + "LEFT->RIGHT.topics = o.*\nRIGHT->LEFT.topics = orders, heartbeats\n")
    shared = shared_topics(settings.flow("LEFT", "RIGHT"), settings.flow("RIGHT", "LEFT"), settings.flows)
    assert shared is not None
    assert [shared(name) for name in ("orders", "others", "heartbeats", "__orders")] == [True, False, False, False]
    one_way = load(tmp_path, IDENTITY + "LEFT->RIGHT.enabled = true\n")
    assert shared_topics(one_way.flow("LEFT", "RIGHT"), one_way.flow("RIGHT", "LEFT"), one_way.flows) is None


def test_commands_about_positions_are_refused_where_topics_may_be_shared(tmp_path: Path) -> None:
    settings = load(tmp_path, IDENTITY + BOTH)
    with pytest.raises(TopicsShared, match="positions cannot be translated between LEFT and RIGHT"):
        refuse_shared_topics(settings, THERE, "positions cannot be translated")


def test_actions_refuse_shared_topics_but_those_that_know_them(tmp_path: Path) -> None:
    settings = load(tmp_path, IDENTITY + BOTH)
    place = DrillContext(
        clusters=settings.clusters, flow=THERE, run_dir=tmp_path, properties=tmp_path / "mm2.properties"
    )
    for known in (DrainMirror, Triage, TranslateGroups, VerifyGroups, MovePointer, CreateTopics):
        known().bind(place)
    with pytest.raises(TopicsShared, match=r"groups\.translate_back is not possible between RIGHT and LEFT"):
        TranslateBack().bind(place)


def test_actions_of_planned_moves_know_flows_whose_topics_are_all_shared(tmp_path: Path) -> None:
    def bind(text: str) -> None:
        settings = load(tmp_path, IDENTITY + BOTH + text)
        place = DrillContext(
            clusters=settings.clusters, flow=THERE, run_dir=tmp_path, properties=tmp_path / "mm2.properties"
        )
        for action in (
            SourceReturned(),
            VerifyWorkers(),
            WaitCaughtUp(),
            MoveApplications(),
            GroupsLeft(),
            ReadCanary(),
        ):
            action.bind(place)

    bind("topics = orders, events\n")
    with pytest.raises(TopicsShared, match=r"Give .* the same topics and topics\.exclude"):
        bind("LEFT->RIGHT.topics = orders, events\nRIGHT->LEFT.topics = orders\n")


@pytest.mark.parametrize("action", [MoveApplications(), TranslateBack(), ListTail(), SettleTail(how=Settle.RECOVER)])
def test_actions_that_rely_on_a_way_back_are_refused_where_the_file_has_none(
    tmp_path: Path, action: DrillAction
) -> None:
    def bind(text: str) -> None:
        settings = load(tmp_path, text)
        place = DrillContext(
            clusters=settings.clusters, flow=THERE, run_dir=tmp_path, properties=tmp_path / "mm2.properties"
        )
        action.bind(place)

    bind("LEFT->RIGHT.enabled = true\n")
    with pytest.raises(UsageError, match=r"cannot be reversed: under IdentityReplicationPolicy"):
        bind(IDENTITY + "LEFT->RIGHT.enabled = true\n")


def test_writing_is_not_denied_to_the_mirror_where_it_writes_to_the_same_topics(tmp_path: Path) -> None:
    def bind(text: str, *principals: str) -> None:
        settings = load(tmp_path, BOTH + text)
        place = DrillContext(
            clusters=settings.clusters, flow=THERE, run_dir=tmp_path, properties=tmp_path / "mm2.properties"
        )
        FenceSource(deny_write=(".*",), deny_principals=principals or (ANY_PRINCIPAL,)).bind(place)

    bind("")
    bind(IDENTITY, "User:shop")
    with pytest.raises(UsageError, match="RIGHT->LEFT copies to the same topics on LEFT"):
        bind(IDENTITY)


def test_flow_with_both_kinds_of_topics_is_named(tmp_path: Path) -> None:
    shared, mixed = (load(tmp_path, IDENTITY + BOTH + more) for more in ("", "LEFT->RIGHT.topics = orders, events\n"))
    assert (all_shared(shared, THERE), all_shared(shared, BACK), all_shared(mixed, THERE)) == (True, True, False)
    refuse_partly_shared(shared, BACK, "it cannot be moved")
    with pytest.raises(TopicsShared, match="it cannot be moved"):
        refuse_partly_shared(mixed, BACK, "it cannot be moved")


def test_every_topic_is_shared_where_both_directions_select_by_the_same_patterns(tmp_path: Path) -> None:
    def every(text: str) -> bool:
        settings = load(tmp_path, IDENTITY + text)
        return shares_every_topic(settings.flow("LEFT", "RIGHT"), settings.flow("RIGHT", "LEFT"), settings.flows)

    assert every(BOTH + "topics = orders, events\n")
    assert every(BOTH + "LEFT->RIGHT.topics = orders, events\nRIGHT->LEFT.topics = events, orders, orders\n")
    assert not every(BOTH + "LEFT->RIGHT.topics = orders, events\nRIGHT->LEFT.topics = orders\n")
    assert not every(BOTH + "LEFT->RIGHT.topics.exclude = events\n")
    assert not every("LEFT->RIGHT.enabled = true\n")


@pytest.mark.parametrize(
    "text",
    [
        BOTH,
        IDENTITY + "LEFT->RIGHT.enabled = true\n",
        IDENTITY + BOTH + "LEFT->RIGHT.topics = east.*\nRIGHT->LEFT.topics = west.*, north\n",
        IDENTITY + BOTH + "LEFT->RIGHT.topics = .*-east, [a-z]+-1\nRIGHT->LEFT.topics = .*-west\n",
        IDENTITY + BOTH + "LEFT->RIGHT.topics = east\nRIGHT->LEFT.topics = west, north-1, eas.t, e.s\n",
    ],
)
def test_commands_about_positions_work_where_no_topic_is_shared(tmp_path: Path, text: str) -> None:
    settings = load(tmp_path, text)
    for flow in (THERE, BACK):
        refuse_shared_topics(settings, flow, "positions cannot be translated")


def test_topics_of_which_patterns_overlap_or_may_overlap_are_refused(tmp_path: Path) -> None:
    for topics in ("east, west", "w.*", "we.t", "e|w.*", "wx?est", "(?i)WEST", "wes\\\\w", ".*", "west+", "[a-w]est"):
        settings = load(tmp_path, IDENTITY + BOTH + f"LEFT->RIGHT.topics = {topics}\nRIGHT->LEFT.topics = west\n")
        with pytest.raises(UsageError):
            refuse_shared_topics(settings, BACK, "positions cannot be translated")
