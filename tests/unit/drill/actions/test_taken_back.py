"""What a step took back: a resumed step keeps what is recorded, and an undo makes it again once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drlib.drill.actions.applications.create_topics import quota_text
from drlib.drill.actions.clients.throttled import ThrottledProducers
from drlib.drill.actions.taken_back import TakenBack
from drlib.drill.step.step_output import Row, write_rows
from drlib.kafka.security.cluster_settings import ClusterSettings

FIRST, SECOND = {"rule": "a"}, {"rule": "b"}


def test_step_that_was_killed_after_a_part_was_taken_back_still_makes_all_of_it_again(tmp_path: Path) -> None:
    """It found less of it when it was resumed, and recorded that alone."""
    made: list[Sequence[Row]] = []
    TakenBack(tmp_path, "s").note([FIRST, SECOND])
    resumed = TakenBack(tmp_path, "s")
    resumed.note([SECOND])
    resumed.note([])
    assert list(resumed.rows()) == [FIRST, SECOND]
    for _ in range(2):
        resumed.make_again(made.append)
    assert list(map(list, made)) == [[FIRST, SECOND]]
    assert not resumed.rows()


def test_quota_that_two_runs_set_one_after_the_other_is_kept_with_what_was_before_the_first(tmp_path: Path) -> None:
    """Set again after a move that failed, it had the first run's limit as its former value, and stayed for good."""
    cluster = ClusterSettings("paris", ("127.0.0.1:1",), {})
    entity = (("client-id", ""),)
    rows = [{"cluster_id": "c", "quota": quota_text(entity, *limits)} for limits in ((1.0, None), (2.0, 1.0))]
    write_rows(tmp_path, "throttled-producers.paris", rows)
    assert ThrottledProducers(tmp_path, cluster).kept() == {entity: (2.0, None)}
