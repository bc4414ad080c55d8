"""A topic that both directions copy, lost on one cluster: it is not filled in part, and one direction alone fills it."""

from __future__ import annotations

import signal

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


@pytest.mark.long
@pytest.mark.timeout(200)
def test_flow_back_that_is_enabled_before_the_filling_is_complete_leaves_no_record_out(both: Engine) -> None:
    """What the right had written lies behind what was filled, on the left alone, and looks like copies of the right's."""
    topic, back = both.topics, f"{both.target}->{both.source}.enabled"
    for bootstrap in (both.left, both.right):
        create_topic(bootstrap, topic, 1)
    lefts, rights = range(2000), range(RIGHTS_FIRST, RIGHTS_FIRST + 2000)

    def both_have(wanted: list[int]) -> bool:
        return all(numbers(bootstrap, topic) == wanted for bootstrap in (both.left, both.right))

    with worker(both):
        produce(both.left, topic, len(lefts), partitions=1)
        wait_for("the right has the left's", lambda: len(numbers(both.right, topic)) == len(lefts))
        produce(both.right, topic, len(rights), partitions=1, first=rights[0])
        wait_for("both have all", lambda: both_have([*lefts, *rights]))
    delete_topic(both.right, topic)
    wait_for("it is gone", lambda: not exists(both.right, topic))
    create_topic(both.right, topic, 1)

    both.extra |= {back: "false", "drlib.target.loss.policy": "remirror"}
    assert both.start(failpoint="mid-produce:5").wait(60) == -signal.SIGKILL, both.log()
    filled = numbers(both.right, topic)
    assert len(filled) < len(lefts), "the right's own records are not among them yet"

    both.extra |= {back: "true", "drlib.target.loss.policy": "park"}
    for number in range(2):  # once more: it is known after a restart as well
        with worker(both):
            first = 10_000 * (number + 1)
            produce(both.left, topic, 20, partitions=1, first=first)
            produce(both.right, topic, 20, partitions=1, first=rights[0] + first)
            more = [
                base + 10_000 * (n + 1) + at for n in range(number + 1) for base in (0, rights[0]) for at in range(20)
            ]
            wanted = sorted([*lefts, *rights, *more])
            try:
                wait_for("each record is once on both", lambda wanted=wanted: both_have(wanted), 20)
            except AssertionError as error:
                have = [len(numbers(bootstrap, topic)) for bootstrap in (both.left, both.right)]
                raise AssertionError(f"{error}\n{have} of {len(wanted)}\n{list(both.events())}\n{both.log()}") from None


@pytest.mark.long
@pytest.mark.timeout(200)
def test_topic_that_was_lost_with_the_journal_that_knew_it_gets_its_own_former_records_back(both: Engine) -> None:
    """A cluster that lost its disks: what it had written itself was left out as copies, silently."""
    topic, lefts, rights = both.topics, range(200), range(RIGHTS_FIRST, RIGHTS_FIRST + 300)
    journal = f"__drlib-journal.{both.source}.internal"
    for bootstrap in (both.left, both.right):
        create_topic(bootstrap, topic, 1)

    def both_have(wanted: list[int]) -> bool:
        return all(numbers(bootstrap, topic) == sorted(wanted) for bootstrap in (both.left, both.right))

    with worker(both):
        produce(both.left, topic, len(lefts), partitions=1)
        produce(both.right, topic, len(rights), partitions=1, first=rights[0])
        wait_for("both have all", lambda: both_have([*lefts, *rights]))
    for lost in (topic, journal):
        delete_topic(both.right, lost)
        wait_for("it is gone", lambda lost=lost: not exists(both.right, lost))
    for number in (1, 2):  # once more: it is known after a restart as well
        with worker(both):
            for bootstrap, first in ((both.left, 0), (both.right, rights[0])):
                produce(bootstrap, topic, 20, partitions=1, first=first + 10_000 * number)
            more = [
                first + 10_000 * n + at for n in range(1, number + 1) for first in (0, rights[0]) for at in range(20)
            ]
            try:
                wait_for("each record is once on both", lambda more=more: both_have([*lefts, *rights, *more]), 30)
            except AssertionError as error:
                have = [len(numbers(bootstrap, topic)) for bootstrap in (both.left, both.right)]
                raise AssertionError(f"{error}\n{have}\n{list(both.events())}\n{both.log()}") from None
