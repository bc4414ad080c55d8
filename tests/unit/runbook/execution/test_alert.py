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
from drlib.runbook.file.model import Alert
from drlib.runs.check import Check, Verdict

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
