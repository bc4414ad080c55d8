"""The debriefing as a page and as Markdown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

from debriefed_incidents import HOSTILE, played_by_a_team

from drlib.runs import folder as folders
from drlib.training.incidents.rules.reveal import TimelineEntry, Track
from drlib.training.incidents.team import page


def test_page_and_markdown_have_every_action_with_estimate_and_time_and_what_was_avoidable() -> None:
    played = played_by_a_team()
    html, markdown = page.html_of(played), page.markdown_of(played)
    for text in (html, markdown):
        assert "restart-broker LEFT" in text
        assert "30.0 s" in text
        assert "+15.0 s" in text, "how much longer it took"
        assert "1 of 2 within the estimate" in text
        assert "no outcome recorded" in text
        assert "came 40 s after the first symptom" in text
        assert "Tom, trainer" in text
    row = next(line for line in markdown.splitlines() if "`+15.0 s`" in line)
    assert [cell.strip(" `") for cell in row.split("|")[1:-1]] == [
        "22:14:30",
        "70.0 s",
        "Ana",
        "restart-broker LEFT",
        "30.0 s",
        "45.0 s",
        "+15.0 s",
        "done",
        "right",
        "a site does not answer, after 50.0 s",
    ]


def test_page_needs_no_network_runs_two_scripts_and_escapes_everything() -> None:
    played = replace(played_by_a_team(), run_id=HOSTILE)
    html, markdown = page.html_of(played), page.markdown_of(played)
    assert HOSTILE not in html
    assert unescape(html).count("default-src 'none'; script-src 'sha256-") == 1
    assert re.findall(r"<script[^>]*>", html) == [
        '<script type="application/json" id="figures">',
        "<script>",
        "<script>",
    ]
    without_scripts = re.sub(r"<script.*?</script>", "", html, flags=re.S)
    assert re.findall(r"""(?:src|href)=["'](?!#|data:)""", without_scripts) == []
    assert "<img" not in markdown.replace(f"`{HOSTILE}`", "")


def test_page_has_the_animated_replay() -> None:
    html = page.html_of(played_by_a_team())
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', html, re.S)
    assert found is not None
    figures = json.loads(found[1])
    bars, replay = figures["figure-1"], figures["figure-2"]
    assert "frames" not in bars or not bars["frames"]
    assert len(replay["frames"]) == len(replay["layout"]["meta"]["replay"]) > 3


def test_incident_of_a_single_player_says_that_there_are_no_estimates() -> None:
    alone = replace(played_by_a_team(), actions=(), ratings=(), seats={})
    html, markdown = page.html_of(alone), page.markdown_of(alone)
    assert page.ALONE in html
    assert page.ALONE in markdown
    assert "figure-2" not in html.split('id="figures"')[0]


def test_events_of_a_long_incident_are_bounded_and_the_rest_is_counted() -> None:
    played = played_by_a_team()
    entries = tuple(TimelineEntry(n, Track.OUTCOME, f"event {n}") for n in range(700))
    d = page.debriefing_of(replace(played, reveal=replace(played.reveal, entries=entries)))
    assert len(d.events) == 500
    assert d.shown == "The first 500 of 700; the journal has all"


def test_writing_again_keeps_a_sealed_folder_sealed(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text("{}\n")
    page.write_debriefing(played_by_a_team(), tmp_path)
    assert not (tmp_path / folders.MANIFEST).exists()
    folders.seal(tmp_path)
    page.write_debriefing(replace(played_by_a_team(), run_id="another"), tmp_path)
    assert folders.differences(tmp_path) == ()
    assert "another" in (tmp_path / page.MARKDOWN).read_text()
    assert (tmp_path / page.PAGE).stat().st_mode & 0o077 == 0
