"""Names of mirror topics: what is said of them, when they are asked for, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from first_runbooks import facts_of, paris_and_lyon

from drlib.config.replication_policy import DEFAULT, IDENTITY, Names
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import UsageError
from drlib.runbook.first_runbooks.naming import (
    choices,
    question,
    refuse_other_names,
    stated,
    why_not_asked,
)
from drlib.runbook.first_runbooks.observation import SeenCluster

ONE = "paris->lyon.enabled = true\n"
BOTH = f"{ONE}lyon->paris.enabled = true\n"
KEPT = f"replication.policy.class = {IDENTITY}\n"
NAMED = f"replication.policy.class = {DEFAULT}\n"
LINES = [f"replication.policy.class = {IDENTITY}", "paris->lyon.enabled = true", "lyon->paris.enabled = true"]


def load(tmp_path: Path, text: str, clusters: str = "paris, lyon") -> MirrorSettings:
    path = tmp_path / "mm2.properties"
    names = clusters.split(", ")
    servers = "".join(f"{name}.bootstrap.servers = 127.0.0.1:{9092 + n}\n" for n, name in enumerate(names))
    path.write_text(f"clusters = {clusters}\n{servers}{text}")
    return load_mirror_settings(path)


def asked(tmp_path: Path, text: str, seen: dict[str, SeenCluster] | None = None, clusters: str = "paris, lyon") -> str:
    found = paris_and_lyon(mirrors=False) if seen is None else seen
    return why_not_asked(load(tmp_path, text, clusters), facts_of(found, text), {})


def test_names_are_asked_for_before_anything_is_mirrored_and_identical_ones_recommended(tmp_path: Path) -> None:
    settings, facts = load(tmp_path, ONE), facts_of(paris_and_lyon(mirrors=False))
    assert asked(tmp_path, ONE) == ""
    said = question(settings, facts)
    assert said[-1] == "Recommended: identical, as lyon stands by: only paris->lyon is enabled."
    assert [line.split(":")[0].strip() for line in said[1:3]] == ["identical", "prefixed"]
    assert all("Cost: " in line for line in said[1:3])
    assert [line.strip() for line in choices(settings)] == [
        "For identical names write into the file:",
        *LINES,
        "For prefixed names:",
        "replication.policy.class = org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
    ]


def test_where_both_clusters_may_serve_names_are_asked_for_and_people_choose(tmp_path: Path) -> None:
    assert asked(tmp_path, BOTH) == ""
    said = question(load(tmp_path, BOTH), facts_of(paris_and_lyon(mirrors=False), BOTH))
    assert said[-1].startswith("Recommended: identical where one cluster stands by. ")


def test_names_are_not_asked_for_where_they_would_change_or_too_little_is_known(tmp_path: Path) -> None:
    assert asked(tmp_path, ONE, paris_and_lyon()).startswith("2 topics are mirrored already")
    unknown = "it is not known whether topics are mirrored already"
    assert asked(tmp_path, ONE, paris_and_lyon(seen=False)) == unknown
    clusters = paris_and_lyon(mirrors=False)
    in_part = {**clusters, "lyon": replace(clusters["lyon"], in_part="2 brokers do not answer")}
    assert asked(tmp_path, ONE, in_part) == unknown
    assert "this one has 3" in asked(tmp_path, ONE, clusters="paris, lyon, rome")


@pytest.mark.parametrize("text", [ONE + KEPT, BOTH + KEPT, ONE + NAMED])
def test_file_that_names_a_policy_is_not_asked_about_it_and_what_it_costs_is_said(text: str, tmp_path: Path) -> None:
    settings, facts = load(tmp_path, text), facts_of(paris_and_lyon(mirrors=False), text)
    written = {str(each.flow): 7 for each in facts}
    assert why_not_asked(settings, facts, written)
    said = stated(settings, facts, written)
    assert len(said) == 3 * len(facts)
    assert all("(replication.policy.class in line 7)" in line for line in said[::3])
    assert all(line.startswith("  for it: ") for line in said[1::3])
    assert all(line.startswith("  cost: ") for line in said[2::3])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ONE, "paris->lyon: names are prefixed (the default, as the file has no replication.policy.class)."),
        (ONE + KEPT, "paris->lyon: names are identical, in one direction (the default"),
        (BOTH + KEPT, "paris->lyon: names are identical, in both directions (the default"),
    ],
)
def test_scheme_of_a_flow_is_said(text: str, said: str, tmp_path: Path) -> None:
    assert stated(load(tmp_path, text), facts_of(paris_and_lyon(), text), {})[0].startswith(said)


@pytest.mark.parametrize(
    ("wanted", "text", "clusters", "said"),
    [
        (Names.IDENTICAL, ONE, "paris, lyon", "does not name topics alike"),
        (Names.IDENTICAL, ONE + KEPT, "paris, lyon", "does not name topics alike"),
        (Names.IDENTICAL, BOTH + KEPT, "paris, lyon, rome", "it has 3 clusters"),
        (Names.IDENTICAL, f"{BOTH}{KEPT}paris->lyon.topics = a, b\n", "paris, lyon", "does not copy the same topics"),
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


def test_lines_for_identical_names_give_the_way_back_the_topics_of_the_only_flow(tmp_path: Path) -> None:
    text = f"{ONE}paris->lyon.topics = orders, payments.v1\nparis->lyon.topics.exclude = a.*\n"
    written = choices(load(tmp_path, text))[1:6]
    assert [line.strip() for line in written] == [
        *LINES,
        "lyon->paris.topics = orders,payments.v1",
        "lyon->paris.topics.exclude = a.*",
    ]
    refuse_other_names(load(tmp_path, "\n".join([text, *written, ""])), Names.IDENTICAL)
