"""How a lab's mirror topics are named is chosen before a mirror runs on it, and not after."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fix_lab import LabFactory
from repository_root import ROOT

from drlib import open_drill
from drlib.config.replication_policy import Names
from drlib.drill.testbed.failover_testbed import FailoverTestbed, name_topics
from drlib.errors import UsageError
from drlib.lab.workload.topics import SOURCE_TOPICS, acknowledged

RUNBOOK = ROOT / "runbooks" / "failback-drill.yaml"


def test_names_are_changed_until_a_mirror_has_run_and_refused_afterwards(
    lab_factory: LabFactory, tmp_path: Path
) -> None:
    lab = lab_factory()
    lab.write_properties()
    with open_drill(RUNBOOK, tmp_path / "first", lab_dir=lab.root, names="identical") as drill:
        drill.plan()
    assert FailoverTestbed(lab, tmp_path).shared
    with open_drill(RUNBOOK, tmp_path / "second", lab_dir=lab.root, names="prefixed") as drill:
        drill.plan()
    assert not FailoverTestbed(lab, tmp_path).shared
    lab.registry.start("mirror-1", [sys.executable, "-c", ""], log=lab.root / "mirror-1.log")
    with pytest.raises(UsageError, match="this lab names mirror topics otherwise, and a mirror has run on it"):
        open_drill(RUNBOOK, tmp_path / "third", lab_dir=lab.root, names="identical")
    assert not FailoverTestbed(lab, tmp_path).shared


def test_topics_that_hold_records_before_any_mirror_are_refused(lab_factory: LabFactory, tmp_path: Path) -> None:
    lab = lab_factory()
    name_topics(lab, Names.IDENTICAL)
    testbed = FailoverTestbed(lab, tmp_path)
    testbed.share(SOURCE_TOPICS)
    testbed.share(SOURCE_TOPICS)
    with acknowledged(lab.clusters["RIGHT"]) as producer:
        producer.produce("flights", b"early")
    with pytest.raises(UsageError, match="topics on RIGHT hold records already"):
        testbed.share(SOURCE_TOPICS)
