"""Names of mirror topics: what is recommended before anything is mirrored, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from first_runbooks import facts_of, paris_and_lyon

from drlib.config.replication_policy import IDENTITY
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import UsageError
from drlib.runbook.first_runbooks.naming import Names, advice, refuse_other_names

ONE = "paris->lyon.enabled = true\n"
BOTH = f"{ONE}lyon->paris.enabled = true\n"
KEPT = f"replication.policy.class = {IDENTITY}\n"
LINES = [f"replication.policy.class = {IDENTITY}", "paris->lyon.enabled = true", "lyon->paris.enabled = true"]


def load(tmp_path: Path, text: str, clusters: str = "paris, lyon") -> MirrorSettings:
    path = tmp_path / "mm2.properties"
    names = clusters.split(", ")
    servers = "".join(f"{name}.bootstrap.servers = 127.0.0.1:{9092 + n}\n" for n, name in enumerate(names))
    path.write_text(f"clusters = {clusters}\n{servers}{text}")
    return load_mirror_settings(path)


def test_identical_names_are_recommended_before_anything_is_mirrored(tmp_path: Path) -> None:
    said = advice(load(tmp_path, ONE), facts_of(paris_and_lyon(mirrors=False)))
    assert said[1].startswith("recommended")
    assert [line.strip() for line in said[2:]] == LINES


@pytest.mark.parametrize("text", [ONE + KEPT, BOTH, BOTH + KEPT])
def test_nothing_is_recommended_where_names_are_identical_or_both_clusters_serve(tmp_path: Path, text: str) -> None:
    assert advice(load(tmp_path, text), facts_of(paris_and_lyon(mirrors=False), text)) == []


def test_nothing_is_recommended_where_names_would_change_or_nothing_is_known(tmp_path: Path) -> None:
    settings = load(tmp_path, ONE)
    assert advice(settings, facts_of(paris_and_lyon())) == []
    assert advice(settings, facts_of(paris_and_lyon(seen=False))) == []
    clusters = paris_and_lyon(mirrors=False)
    in_part = {**clusters, "lyon": replace(clusters["lyon"], in_part="2 brokers do not answer")}
    assert advice(settings, facts_of(in_part)) == []


@pytest.mark.parametrize(
    ("wanted", "text", "clusters", "said"),
    [
        (Names.IDENTICAL, ONE, "paris, lyon", "does not name topics alike"),
        (Names.IDENTICAL, ONE + KEPT, "paris, lyon", "does not name topics alike"),
        (Names.IDENTICAL, BOTH + KEPT, "paris, lyon, rome", "it has 3 clusters"),
        (Names.PREFIXED, BOTH + KEPT, "paris, lyon", "keeps the names of topics"),
    ],
)
def test_file_that_names_topics_otherwise_is_refused(
    wanted: Names, text: str, clusters: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        refuse_other_names(load(tmp_path, text, clusters), wanted)
    assert refused.value.remedy


def test_file_that_names_topics_as_wanted_is_accepted(tmp_path: Path) -> None:
    for wanted, text in ((Names.IDENTICAL, BOTH + KEPT), (Names.PREFIXED, ONE), (None, ONE), (None, BOTH + KEPT)):
        refuse_other_names(load(tmp_path, text), wanted)
