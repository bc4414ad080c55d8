"""The tour of the first notebook on a lab where something else runs already."""

from __future__ import annotations

import pytest
from fix_lab import LabFactory

from drlib import Tour
from drlib.errors import UsageError
from drlib.lab.workload.mirrors import LabMirrors
from drlib.lab.workload.topics import TopicSpec, create_topics
from drlib.model import Flow
from drlib.runs.abort import Abort


def test_tour_beside_a_worker_of_other_topics_is_refused_and_then_mirrors(lab_factory: LabFactory) -> None:
    lab = lab_factory(("LEFT", "RIGHT"))
    create_topics(lab.clusters["LEFT"].bootstrap, [TopicSpec("other", 1)])
    other = LabMirrors(lab, "other-mirror", "other", (Flow("LEFT", "RIGHT"),), lanes=2)
    other.start(Abort(lab.root))
    with Tour(lab.root, "kept") as tour:
        with pytest.raises(UsageError, match="LEFT->RIGHT is being mirrored") as refused:
            tour.mirror(10)
        assert "the tour needs the flow for itself" in refused.value.why
        other.kill()  # its session still counts for a while
        assert all(row["same records, same order"] for row in tour.mirror(10).rows)
