"""The page beside the runbooks: its commands, its applications, and names that cannot leave their place."""

from __future__ import annotations

from dataclasses import replace

import mistune
import pytest
from first_runbooks import facts_of, group, paris_and_lyon
from hostile_text import HOSTILE, elements, words

from drlib.formats import one_line
from drlib.runbook.first_runbooks import readme, runbooks
from drlib.runbook.first_runbooks.observation import FlowFacts
from drlib.runbook.first_runbooks.runbooks import Place
from drlib.runs.scorecard import Objectives

PLACE = Place("mm2.properties", "runbooks")
ANY_GROUP = "paris->lyon.enabled = true\ngroups = (?s).*\n"


def page(flows: tuple[FlowFacts, ...], objectives: Objectives | None = None, place: Place = PLACE) -> str:
    return readme.page(flows, runbooks.names(flows), place, objectives or Objectives())


def html(text: str) -> str:
    return str(mistune.create_markdown(escape=False, plugins=["table"])(text))


def test_page_has_commands_clusters_and_the_address_after_a_move() -> None:
    text = page(facts_of(paris_and_lyon(group("billing", clients=("billing-1",)))))
    assert "drlib run runbooks/rehearse.yaml mm2.properties\n" in text
    assert "drlib run runbooks/failover.yaml mm2.properties --approve fence\n" in text
    assert "drlib schedule emit runbooks/nightly-audit.yaml mm2.properties --as cron\n" in text
    assert "| `paris` | `id-1` | `10.0.0.1:9092` | 3 | no |" in text
    assert "After a move, bootstrap address `10.0.0.2:9092`." in text
    assert "| 1 | `billing` | `billing-1` | `orders` | `paris.orders`, `orders` |" in text
    assert "Topics that producers were seen to write to: `orders`." in text


def test_page_lists_what_is_not_known() -> None:
    clusters = paris_and_lyon()
    without = page(facts_of({**clusters, "paris": replace(clusters["paris"], unknown=("producers: refused",))}))
    unknown = without.partition("## Not known")[2]
    assert "- `paris`: `producers: refused`" in unknown
    assert "the objectives:" in unknown
    assert "the objectives:" not in page(facts_of(clusters), Objectives(rto_seconds=60))


def test_page_of_a_silent_cluster_says_so() -> None:
    clusters = {a: replace(c, silence="no answer") for a, c in paris_and_lyon(seen=False).items()}
    text = page(facts_of(clusters))
    assert "| `paris` | not known | `10.0.0.1:9092` | does not answer | not known |" in text
    assert "The applications are not known" in text
    said = "paris->lyon: mirrored topics not known, groups not known, producers not known"
    assert readme.lines_of(facts_of(clusters)) == [said]


def test_topics_of_a_cluster_that_hides_some_are_not_known_where_none_is_seen() -> None:
    hidden = {
        a: replace(c, topics=frozenset(), unknown=("consumer groups: hidden",)) for a, c in paris_and_lyon().items()
    }
    assert "Mirrored topics: not known." in page(facts_of(hidden))
    assert readme.lines_of(facts_of(hidden))[0].startswith("paris->lyon: mirrored topics not known, ")
    assert "2 mirrored topics, " in readme.lines_of(facts_of(paris_and_lyon()))[0]


def test_page_of_many_groups_counts_the_rest() -> None:
    text = page(facts_of(paris_and_lyon(*(group(f"g{n:03}") for n in range(100)))))
    assert text.count("\n| ") < 60
    assert "and 60 more, in `failover.yaml`" in text
    assert "more, in" not in page(facts_of(paris_and_lyon(*(group(f"g{n:03}") for n in range(40)))))
    assert len(text.splitlines()) < 150


def test_page_of_two_flows_has_both_and_says_how_files_are_named() -> None:
    text = page(facts_of(paris_and_lyon(), "paris->lyon.enabled = true\nlyon->paris.enabled = true\n"))
    assert "## `paris->lyon`" in text
    assert "## `lyon->paris`" in text
    assert "runbooks/failover-lyon-paris.yaml" in text
    assert "their names end with the flow's clusters" in text


def test_row_of_an_application_has_its_cells_whatever_is_in_them() -> None:
    seen = group("a|g", clients=("a|b",), topics=("a|t",))
    row = next(line for line in page(facts_of(paris_and_lyon(seen))).splitlines() if line.startswith("| 1 |"))
    assert row.startswith(r"| 1 | `a\|g` | `a\|b` | `a\|t` | ")


@pytest.mark.parametrize(("members", "said"), [(0, "no member"), (None, "not known"), (1, "not known")])
def test_row_of_an_application_without_client_ids_says_why(members: int | None, said: str) -> None:
    assert f"| 1 | `g` | {said} | " in page(facts_of(paris_and_lyon(replace(group("g"), members=members))))


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_page_of_hostile_names_has_the_elements_of_any_other_and_shows_each(name: str) -> None:
    plain, hostile = (
        page(facts_of(paris_and_lyon(group(each, clients=(f"{each}.",), topics=("orders",))), ANY_GROUP))
        for each in ("billing", name)
    )
    assert elements(html(hostile)) == elements(html(plain))
    assert " ".join(one_line(name).split()) in " ".join(words(html(hostile)).split())
    hostile.encode(errors="strict")


@pytest.mark.parametrize("text", ["a`b", "``", "`a` | b", "|", "ends`", " space "])
def test_code_span_holds_any_backticks_and_bars(text: str) -> None:
    table = f"| x |\n|---|\n| {readme.code(text, cell=True)} |\n"
    shown = words(html(table)).replace("\\|", "|")  # as GitHub shows a bar in a table's code; mistune leaves the escape
    assert shown.split() == ["x", *text.split()]
