"""The alert of a run: one JSON document with the texts as they are, whatever is in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sample_scorecard as sample
from hostile_text import HOSTILE
from testbed_http import http_server

from drlib.errors import UsageError
from drlib.runbook.execution import alert
from drlib.runbook.file.model import Alert, During
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import JOURNAL, DrillJournal

TEXTS = {name: text.encode(errors="replace").decode() for name, text in HOSTILE.items() if text}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_alert_holds_any_text_as_one_value(text: str, tmp_path: Path) -> None:
    card = sample.scorecard(checks=(Check(text, Verdict.FAIL, ""),))
    with http_server() as server:
        destination = Alert(url=server.url("/hook"))
        assert alert.send(destination, card, 7, text, tmp_path) == ""
        assert alert.send_refused(destination, text, UsageError(text, "why", "remedy")) == ""
        sent, refused = (json.loads(each.body) for each in server.received)
        assert [each.path for each in server.received] == ["/hook", "/hook"]
        headers = [set(each.headers) for each in server.received]
        assert not any(text in value for each in server.received for value in each.headers.values())
    assert (sent["error"], sent["missed"]) == (text, text)
    assert refused["error"] == f"{text}: why. remedy"
    assert refused["runbook"] == text
    assert headers[0] == headers[1]
    json.loads((tmp_path / alert.EVIDENCE).read_text())


def test_alert_with_a_header_that_cannot_be_sent_is_said_without_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALERT_TOKEN", "canary-1\ncanary-2")
    with http_server() as server:
        destination = Alert(url=server.url("/hook"), headers={"Authorization": "Bearer ${env:ALERT_TOKEN}"})
        why = alert.send(destination, sample.scorecard(), 7, "missed", tmp_path)
        assert server.received == []
    assert why.endswith("was not done: a header holds what no header can hold")
    assert "canary" not in (tmp_path / alert.EVIDENCE).read_text()


def posted_during(run_dir: Path, during: str, failing: str = "") -> tuple[list[dict[str, str]], str]:
    """What a run that began before is posted of, and what could not be delivered."""
    with http_server() as server:
        if failing:
            server.answers["/hook"] = (500, {}, failing.encode())
        destination = Alert(url=server.url("/hook"), during=During(during), timeout_seconds=5)
        written = DrillJournal(run_dir / JOURNAL)
        written.write("run-started", detail="of an earlier execution")
        with alert.DuringRun(destination, "night", run_dir) as alerts:
            written.write("run-resumed")
            written.write("step-started", step="fence")
            written.write("step-failed", step="fence", error="it was refused")
            written.write("step-succeeded", step="move")
        return [json.loads(each.body) for each in server.received], alerts.undelivered


@pytest.mark.parametrize(
    ("during", "events"),
    [
        ("nothing", []),
        ("failures", ["run-resumed", "step-failed"]),
        ("steps", ["run-resumed", "step-started", "step-failed", "step-succeeded"]),
    ],
)
def test_alert_during_a_run_is_of_what_its_file_asks_for_in_order(
    tmp_path: Path, during: str, events: list[str]
) -> None:
    posted, undelivered = posted_during(tmp_path, during)
    assert [each["event"] for each in posted] == events
    assert undelivered == ""
    if posted:
        failed = next(each for each in posted if each["event"] == "step-failed")
        assert (failed["runbook"], failed["step"], failed["error"]) == ("night", "fence", "it was refused")
        evidence = json.loads((tmp_path / alert.DURING).read_text())
        assert [(each["event"], each["outcome"]) for each in evidence] == [(event, "ok") for event in events]


def test_alert_during_a_run_that_is_refused_is_said_and_tried_for_the_next_event(tmp_path: Path) -> None:
    posted, undelivered = posted_during(tmp_path, "failures", failing="no")
    assert len(posted) == 2
    assert undelivered.startswith("2 alerts during the run: ")
    assert "500" in undelivered


def test_alert_during_a_run_that_is_never_answered_holds_its_end_up_for_one_request_and_changes_no_file_later(
    tmp_path: Path,
) -> None:
    with http_server() as server:
        server.answers["/hook"] = (200, {}, None)
        destination = Alert(url=server.url("/hook"), during=During.STEPS, timeout_seconds=0.2)
        written = DrillJournal(tmp_path / JOURNAL)
        with alert.DuringRun(destination, "night", tmp_path) as alerts:
            for number in range(30):
                written.write("step-started", step=f"s{number}")
        there = {path: path.read_bytes() for path in tmp_path.iterdir()}
        assert "not answered in time" in alerts.undelivered
    alerts._thread.join(20)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == there
