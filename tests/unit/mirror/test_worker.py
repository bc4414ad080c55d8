"""Which pairs of clusters only write heartbeats, and which flow's owner writes them. Pure."""

from __future__ import annotations

from pathlib import Path

from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.mirror.worker import heartbeats_owner, pairs_with_heartbeats
from drlib.model import Flow

THREE = """
clusters = A, B, C
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:2
C.bootstrap.servers = 127.0.0.1:3
A->B.enabled = true
B->C.enabled = true
"""


def load(tmp_path: Path, text: str) -> MirrorSettings:
    path = tmp_path / "mm2.properties"
    path.write_text(THREE + text)
    return load_mirror_settings(path)


def pairs(settings: MirrorSettings) -> set[str]:
    return {str(f.flow) for f in pairs_with_heartbeats(settings, settings.enabled_flows)}


def test_pairs_with_heartbeats_are_all_that_are_not_enabled(tmp_path: Path) -> None:
    assert pairs(load(tmp_path, "")) == {"B->A", "A->C", "C->A", "C->B"}


def test_pairs_with_heartbeats_switched_off_for_one_pair_or_all(tmp_path: Path) -> None:
    assert pairs(load(tmp_path, "C->A.emit.heartbeats.enabled = false")) == {"B->A", "A->C", "C->B"}
    one = "emit.heartbeats.enabled = false\nB->A.emit.heartbeats.enabled = true"
    assert pairs(load(tmp_path, one)) == {"B->A"}
    assert pairs(load(tmp_path, "emit.heartbeats.interval.seconds = -1")) == set()


def test_heartbeats_owner_is_the_opposite_flow_or_the_first() -> None:
    enabled = [Flow("A", "B"), Flow("B", "C")]
    assert heartbeats_owner(Flow("C", "B"), enabled) == 1
    assert heartbeats_owner(Flow("B", "A"), enabled) == 0
    assert heartbeats_owner(Flow("C", "A"), enabled) == 0
