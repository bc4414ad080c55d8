"""A topic that both directions copy, lost on one cluster: neither the policy nor the command fills it in part."""

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
def test_shared_topic_that_was_lost_is_not_filled_in_part(both: Engine) -> None:
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
    assert "while both directions copy it" in refused.stderr
