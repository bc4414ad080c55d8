"""An emergency while the source's groups go on committing, and the mirror synchronizes their offsets."""

from __future__ import annotations

from pathlib import Path

import pytest
from fix_engine import Engine, commit, create_topic, produce, wait_for
from testbed_moves import Place

from drlib.drill.actions.groups import decided, translate
from drlib.drill.actions.groups.commit import committed_positions
from drlib.drill.step import step_output
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.translation.translate_groups import newest_positions
from drlib.model import TopicPartition
from drlib.runs.abort import Abort


@pytest.mark.parametrize("when", ["decided", "written"])
def test_group_whose_offsets_the_mirror_synchronizes_meanwhile_is_not_taken_for_one_that_is_used_there(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It commits once its position was read on the source (`decided`), or once it was decided (`written`)."""
    engine.extra |= {"sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "1"}
    topic, target = engine.topics, ClusterSettings(engine.target, (engine.right,))
    group, mirror = f"{topic}-reads", TopicPartition(f"{engine.source}.{topic}", 0)
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 300, partitions=1)
    engine.start()
    engine.wait_caught_up(topic, 1)
    commit(engine.left, group, topic, 100)

    def on_target() -> int:
        at = committed_positions(target, [group])[group].get(mirror)
        return 0 if at is None else at.offset

    wait_for("the first offset is synchronized", lambda: on_target() > 100)  # exactly: the map is known by then
    first = on_target()

    def reads_on() -> None:
        commit(engine.left, group, topic, 200)
        wait_for("the second offset is synchronized", lambda: on_target() > first)

    if when == "decided":
        asked: list[object] = []

        def read_on_once(*arguments: object) -> object:
            found = newest_positions(*arguments)  # type: ignore[arg-type]
            if not asked:
                reads_on()
            asked.append(found)
            return found

        monkeypatch.setattr(translate, "newest_positions", read_on_once)
    else:
        keep = decided.write

        def keep_and_read_on(*arguments: object) -> None:
            keep(*arguments)  # type: ignore[arg-type]
            if on_target() == first:
                reads_on()

        monkeypatch.setattr(decided, "write", keep_and_read_on)
    folder = tmp_path / "run"
    folder.mkdir()
    place = Place(properties=str(engine.properties), source=engine.source, target=engine.target).workplace(folder)
    action = translate.TranslateGroups(groups=(group,)).bind(place, "translate")
    found = action.act((), Abort(folder))
    assert on_target() == first + 100
    assert found["left"] == 0
    assert step_output.read_part(folder, "translate").checks == ()
