"""Steps on clusters, as far as no cluster is needed: their arguments, and what they would change."""

from pathlib import Path

import pytest

from drlib.drill.actions.topics_and_groups import CreateTopic, makers
from drlib.drill.plan.lease_record import LeaseRecord, decode, group, key
from drlib.drill.plan.plan import Argument, Call, Change, Drill, Fact, Mode, Step
from drlib.drill.plan.progress import Reach
from drlib.drill.plan.states import DrillState
from drlib.drill.step.action import make_actions, reach
from drlib.drill.step.context import DrillContext
from drlib.errors import UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow

RIGHT = ClusterSettings("RIGHT", ("127.0.0.1:1",))
FLOW = Flow("LEFT", "RIGHT")


def made(name: str, **arguments: str | int | bool | tuple[str, ...]) -> object:
    call = Call(name, tuple(Argument(key, value) for key, value in arguments.items()))
    drill = Drill(name="d", flow=FLOW, mode=Mode.PLANNED, steps=(Step(name="one", title="One", action=call),))
    return make_actions(drill, makers(DrillContext(clusters={"RIGHT": RIGHT}, flow=FLOW, run_dir=Path())))["one"]


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("topic.create", {"cluster": "RIGTH", "topic": "a", "partitions": 1}, "cluster RIGTH.*There are: RIGHT"),
        ("topic.create", {"cluster": "RIGHT", "topic": "a"}, "'partitions' is missing"),
        ("topic.create", {"cluster": "RIGHT", "topic": "a", "partitions": 0}, "0 is no number"),
        ("topic.create", {"cluster": "RIGHT", "topic": "a", "partitions": True}, "True is no number"),
        ("topic.create", {"cluster": "RIGHT", "topic": "a", "partitions": "6"}, "6 is no number"),
        ("group.move", {"cluster": "RIGHT", "group": "g", "topic": "a", "positions": ()}, "no list"),
        ("group.move", {"cluster": "RIGHT", "group": "g", "topic": "a", "positions": "0:1"}, "no list"),
        ("group.move", {"cluster": "RIGHT", "group": "g", "topic": "a", "positions": ("0",)}, "position '0'"),
        ("group.move", {"cluster": "RIGHT", "group": "g", "topic": "a", "positions": ("0:-1",)}, "position '0:-1'"),
    ],
)
def test_a_wrong_argument_is_named(name: str, arguments: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        made(name, **arguments)


def test_a_topic_is_created_where_there_is_none_and_never_changed() -> None:
    step = made("topic.create", cluster="RIGHT", topic="a", partitions=6)
    assert isinstance(step, CreateTopic)
    entity = "partitions of topic a on RIGHT"
    assert step.changes((Fact(entity, None),)) == (Change(entity, None, 6),)
    assert step.changes((Fact(entity, 6),)) == ()
    with pytest.raises(UsageError, match="it has 3 partitions and not 6"):
        step.changes((Fact(entity, 3),))


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (None, 3, Reach.UNTOUCHED),
        (6, 3, Reach.PARTLY),
        (6, 9, Reach.DONE),
        (6, 4, Reach.UNKNOWN),
        (5, 3, Reach.UNKNOWN),
    ],
)
def test_how_far_changes_came(one: int | None, two: int, expected: Reach) -> None:
    changes = (Change("one", None, 6), Change("two", 3, 9))
    assert reach((Fact("one", one), Fact("two", two), Fact("else", 1)), changes) is expected


def test_nothing_to_change_is_done_and_what_was_not_looked_at_is_unknown() -> None:
    assert reach((), ()) is Reach.DONE
    assert reach((), (Change("one", None, 6),)) is Reach.UNKNOWN


def test_a_lease_record_comes_back_and_what_is_none_is_an_error() -> None:
    record = LeaseRecord(state=DrillState.RUNNING, run="r", since_ms=5)
    assert decode(record.encode(), FLOW) == record
    assert decode(None, FLOW) == LeaseRecord()
    assert (key(FLOW), group(FLOW)) == (b"LEFT->RIGHT", "drlib.drill.LEFT->RIGHT")
    for value in (b"", b"{}x", b'{"state": "asleep"}', b'{"newer": 1}'):
        with pytest.raises(UsageError, match="LEFT->RIGHT"):
            decode(value, FLOW)
