"""A flow with a topic that both directions copy under one name and one that it copies alone: judged by the doctor, rehearsed
and audited by the runbooks of `drlib init`, failed over. A way back is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fix_engine import commit, create_topic, produce, wait_for
from testbed_way_back import FLOW, GROUP, TOPIC, Night, a_shared_night

from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.states import DrillState
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.model import TopicPartition

ALONE, READER = "invoices", "invoicing"  # a topic that paris alone writes to, and its group


def numbers(night: Night, topic: str, first: int) -> list[int]:
    """Those of the records on lyon from an offset on."""
    partition = TopicPartition(topic, 0)
    with Cluster(night.settings("lyon")) as cluster:
        if topic not in cluster.topics([topic]):
            return []
        records = cluster.read({partition: Range(first, cluster.log_ends([partition])[partition])})
        return [int(dict(record.headers)["n"] or 0) for record in records]


def drlib(night: Night, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "drlib.cli", *arguments, "--runs-dir", str(night.runs_dir)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def written_by_init(night: Night) -> Path:
    """The folder of the runbooks, which is not the one where `drlib failover` looks: they wait minutes for applications."""
    folder = night.file.parent / "written"
    done = drlib(night, "init", str(night.file), "--names", "prefixed")
    assert "keeps the names of topics" in done.stderr
    done = drlib(night, "init", str(night.file), "--dir", str(folder))
    assert done.returncode == 0, done.stderr
    assert f"{FLOW}: names are identical, in one direction" in done.stdout
    kinds = {path.name.removesuffix("-paris-lyon.yaml") for path in folder.glob("*-paris-lyon.yaml")}
    assert kinds == {"rehearse", "failover", "nightly-audit", "lag-report"}
    return folder


def ran(night: Night, book: Path) -> None:
    done = drlib(night, "run", str(book), str(night.file))
    print(done.stdout[-4000:], done.stderr[-4000:])
    assert done.returncode == 0


@contextmanager
def a_partly_shared_night(root: Path) -> Iterator[Night]:
    """Both clusters write to the shared topic, and all is mirrored."""
    with a_shared_night(root, **{"paris->lyon.topics": f"{TOPIC}, {ALONE}"}) as night:
        paris = night.lab.clusters["paris"]
        create_topic(paris.bootstrap, ALONE, 1)
        produce(paris.bootstrap, ALONE, 200, partitions=1)
        commit(paris.bootstrap, READER, ALONE, 70)
        commit(paris.bootstrap, GROUP, TOPIC, 380)
        night.write("lyon", 50)
        wait_for("both have the shared topic", lambda: all(night.records(a) == 450 for a in ("paris", "lyon")), 60)
        wait_for("lyon has the other one", lambda: len(numbers(night, ALONE, 0)) == 200, 60)
        yield night


@pytest.mark.long
@pytest.mark.timeout(420)
def test_flow_with_shared_and_other_topics_is_audited(tmp_path: Path) -> None:
    with a_partly_shared_night(tmp_path) as night:
        ran(night, written_by_init(night) / "nightly-audit-paris-lyon.yaml")


@pytest.mark.long
@pytest.mark.timeout(420)
def test_flow_with_shared_and_other_topics_is_rehearsed_and_fails_over(tmp_path: Path) -> None:
    with a_partly_shared_night(tmp_path) as night:
        paris = night.lab.clusters["paris"]
        unread = night.number_at("paris", 380)  # markers of the flow back have offsets, too

        def checkpointed() -> bool:
            known = checkpointed_positions(load_mirror_settings(night.file), FLOW)
            found = [known.get((g, TopicPartition(t, 0))) for g, t in ((GROUP, TOPIC), (READER, ALONE))]
            return [each and each.offset for each in found] == [380, 70]

        wait_for("checkpoints of both groups", checkpointed, 60)

        doctor = drlib(night, "doctor", str(night.file), "--json")
        print(doctor.stdout[-6000:], doctor.stderr[-2000:])
        scores = {each["flow"]: each["score"] for each in json.loads(doctor.stdout)}
        assert scores[str(FLOW)] >= 80
        ran(night, written_by_init(night) / "rehearse-paris-lyon.yaml")

        paris.kill()
        documents, _ = night.cli("failover", str(night.file), str(FLOW), "--yes", "lyon", code=7)
        groups = documents[0]["groups"]
        assert isinstance(groups, list)
        print(documents[0])
        outlook = {row["group"]: row for row in groups}
        assert outlook[READER]["continues"] == "exactly"
        assert (night.active, night.state().state) == ("lyon", DrillState.FAILED_OVER)
        with Cluster(night.settings("lyon")) as cluster:
            (at,) = cluster.group_offsets(READER).values()
            (shared_at,) = cluster.group_offsets(GROUP).values()
        assert numbers(night, ALONE, at.offset) == [*range(70, 200)]
        assert {*range(unread, 400)} <= {*numbers(night, TOPIC, shared_at.offset)}

        refused = drlib(night, "failback", str(night.file), str(FLOW))
        assert refused.returncode == 2
        assert f"{FLOW} cannot be failed back" in refused.stderr
        assert "the same topics and topics.exclude" in refused.stderr
