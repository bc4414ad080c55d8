"""A topic that both directions copy, lost on one cluster: it is not filled in part, and one direction alone fills it."""

from __future__ import annotations

import pytest
from command_line import drlib
from confluent_kafka.admin import AdminClient
from fix_engine import Engine, create_topic, delete_topic, produce, read_all, wait_for
from fix_two_way import RIGHTS_FIRST, worker


def numbers(bootstrap: str, topic: str) -> list[int]:
    return sorted(int(dict(record[2])["n"]) for record in read_all(bootstrap, topic, 1)[0])


def exists(bootstrap: str, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=5).topics


@pytest.mark.long
@pytest.mark.timeout(200)
def test_shared_topic_that_was_lost_is_filled_by_one_direction_and_shared_again(both: Engine) -> None:
    topic = both.topics
    both.extra["drlib.target.loss.policy"] = "remirror"
    for bootstrap in (both.left, both.right):
        create_topic(bootstrap, topic, 1)
    written = [*range(50), *range(RIGHTS_FIRST, RIGHTS_FIRST + 60)]

    def both_have(wanted: list[int]) -> bool:
        return all(numbers(bootstrap, topic) == wanted for bootstrap in (both.left, both.right))

    with worker(both):
        produce(both.left, topic, 50, partitions=1)
        produce(both.right, topic, 60, partitions=1, first=RIGHTS_FIRST)
        wait_for("both have all", lambda: both_have(written))
    delete_topic(both.right, topic)
    wait_for("it is gone", lambda: not exists(both.right, topic))
    create_topic(both.right, topic, 1)
    with worker(both):
        both.wait_reported("MirrorTopicRecreated", f"{topic}-0")
    assert numbers(both.right, topic) == []  # the policy would have brought the left's own records alone
    refused = drlib("remirror", str(both.properties), topic, "--flow", f"{both.source}->{both.target}", "--yes")
    assert refused.returncode == 2
    assert f"{both.target}->{both.source}.enabled = false" in refused.stderr

    both.extra |= {f"{both.target}->{both.source}.enabled": "false", "drlib.target.loss.policy": "park"}
    one_way = both.start()
    both.wait_reported("MirrorTopicRecreated", f"{topic}-0")
    done = drlib("remirror", str(both.properties), topic, "--flow", f"{both.source}->{both.target}", "--yes")
    assert done.returncode == 0, done.stderr
    try:
        wait_for("the right has all that the left has", lambda: both_have(written), 30)
    except AssertionError as error:
        have = [numbers(bootstrap, topic) for bootstrap in (both.left, both.right)]
        raise AssertionError(f"{error}\n{have}\n{list(both.events())}\n{both.log()}") from None
    assert both.stop(one_way) == 0, both.log()

    both.extra[f"{both.target}->{both.source}.enabled"] = "true"
    with worker(both):
        produce(both.left, topic, 20, partitions=1, first=1000)
        produce(both.right, topic, 20, partitions=1, first=RIGHTS_FIRST + 1000)
        more = [*range(1000, 1020), *range(RIGHTS_FIRST + 1000, RIGHTS_FIRST + 1020)]
        try:
            wait_for("both have what was written since", lambda: both_have(sorted(written + more)), 60)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{[e for e in both.events() if e.resolved_ms is None]}") from None
