"""Shipped runbooks on clusters that a properties file names paris and lyon: run unchanged, and shown as production."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fix_engine import Engine, commit, create_topic, produce, wait_for
from repository_root import ROOT

from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.groups.rehearsal import CHECKPOINTS
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.model import Flow, TopicPartition

RUNBOOKS = ROOT / "runbooks"
OF_A_LAB = re.compile(r"\b(LEFT|RIGHT)\b|(?i:\b(practice|kill(ed|s)?)\b)")
SCRIPTS = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)


@pytest.fixture
def paris(engine: Engine) -> Engine:
    """A mirrored topic of paris with a group that has read half of it."""
    engine.source, engine.target = "paris", "lyon"
    engine.extra = {
        "drlib.metrics.address": "127.0.0.1:0",
        "emit.heartbeats.enabled": "false",
        "groups": f"{engine.topics}.*",
    }
    create_topic(engine.left, engine.topics, 1)
    produce(engine.left, engine.topics, 40, partitions=1)
    commit(engine.left, f"{engine.topics}.reader", engine.topics, 20)
    engine.start()
    engine.wait_caught_up(engine.topics, 1)
    return engine


def drlib(*arguments: object, code: int = 0, cwd: Path) -> str:
    argv = [sys.executable, "-m", "drlib.cli", *map(str, arguments)]
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == code, done.stdout[-6000:] + done.stderr[-6000:]
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout + done.stderr


def visible(page: str) -> str:
    return re.sub(r"<[^>]*>", " ", SCRIPTS.sub(" ", page))


@pytest.mark.timeout(240)
def test_own_clusters_rehearsal_as_shipped_passes_and_is_shown_as_production(paris: Engine, tmp_path: Path) -> None:
    banner = "PRODUCTION  flow paris->lyon, clusters paris and lyon: rehearsal: no application's group is changed."
    file, book = paris.properties, RUNBOOKS / "rehearse-failover.yaml"
    planned = drlib("plan", book, file, "--runs-dir", tmp_path / "planned", cwd=tmp_path)
    assert " ".join(banner.split()) in " ".join(planned.split())
    assert "REHEARSAL" in planned
    assert "Could we fail over from paris to lyon now?" in " ".join(planned.split())
    said = drlib("run", book, file, "-p", "flow=paris->lyon", "--runs-dir", tmp_path / "runs", cwd=tmp_path)
    assert "PRODUCTION" in said
    assert "unknown parameter" not in said
    assert "Rehearsal of paris->lyon: a canary reads every group's next records on lyon" in said
    (run,) = (tmp_path / "runs").iterdir()
    card = json.loads((run / "scorecard.json").read_text())
    assert card["verdict"] == "pass", card["checks"]
    assert card["objectives"] == {"rto_seconds": None, "rpo_records": None, "rpo_seconds": None}
    assert card["environment"]["environment"] == "production"
    executed = json.loads((run / "executed.ipynb").read_text())
    outputs = [output for cell in executed["cells"] for output in cell.get("outputs", ())]
    texts = ["".join(output.get("data", {}).get("text/plain", "")) for output in outputs]
    assert sum(text.startswith("PRODUCTION") for text in texts) == 2  # the plan and the board
    report = visible((run / "report.html").read_text())
    assert "PRODUCTION" in report
    for name, text in (("terminal", planned + said), ("report", report), ("plan", (run / "plan.json").read_text())):
        found = [text[max(0, m.start() - 60) : m.end() + 30] for m in OF_A_LAB.finditer(text)]
        assert [each for each in found if '"mode": "practice"' not in each] == [], name
    with Cluster(ClusterSettings("lyon", (paris.right,))) as cluster:
        assert not [each.group for each in cluster.groups() if each.group.startswith(f"drill.{run.name}")]


@pytest.mark.long
@pytest.mark.timeout(240)
def test_own_clusters_rehearsal_fails_where_the_mirror_has_not_the_positions_of_the_groups(
    paris: Engine, tmp_path: Path
) -> None:
    """It reads the source with its own login: a mirror that no longer follows the groups was not seen."""
    group, topic = f"{paris.topics}.reader", paris.topics
    settings, flow = load_mirror_settings(paris.properties), Flow("paris", "lyon")
    wait_for(
        "its checkpoint is there", lambda: (group, TopicPartition(topic, 0)) in checkpointed_positions(settings, flow)
    )
    paris.stop(paris.processes[-1])
    followed, paris.extra["groups"] = paris.extra["groups"], "none"  # as one that lost its rights on them
    paris.start()
    paris.wait_caught_up(topic, 1)
    paris.extra["groups"] = followed
    commit(paris.left, group, topic, 30)
    shipped = (RUNBOOKS / "rehearse-failover.yaml").read_text()
    book = tmp_path / "rehearse.yaml"
    book.write_text(
        shipped.replace('{groups: [".*"]}', '{groups: [".*"], checkpoints_s: 1}').replace(
            "../notebooks", f"{ROOT}/notebooks"
        )
    )
    drlib(
        "run", book, paris.properties, "-p", "flow=paris->lyon", "--runs-dir", tmp_path / "runs", code=6, cwd=tmp_path
    )
    (run,) = (tmp_path / "runs").iterdir()
    card = json.loads((run / "scorecard.json").read_text())
    failed = [check for check in card["checks"] if check["verdict"] == "fail"]
    assert [check["name"] for check in failed] == [CHECKPOINTS], card["checks"]
    assert f"{group} in {topic}-0: 20 as of " in failed[0]["evidence"]
    assert ", 10 behind" in failed[0]["evidence"]
