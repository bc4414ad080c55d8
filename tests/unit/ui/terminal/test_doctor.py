"""What a person and a script see of readiness, and which drills count as on record."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from sample_scorecard import finished_run, scorecard, unmeasured

from drlib.drill.readiness.checks.observations import PastDrills
from drlib.drill.readiness.doctor import past_drills
from drlib.drill.readiness.score import Finding, Readiness, Severity
from drlib.runs.check import Verdict
from drlib.ui.terminal.doctor import render_readiness
from drlib.ui.terminal.readiness_json import as_json_text

NOW = 1_795_255_200_000


def readiness() -> Readiness:
    fix = "kafka-topics.sh --bootstrap-server right:9092 --alter --topic LEFT.orders --partitions 3"
    return Readiness(
        "LEFT->RIGHT",
        NOW,
        (
            Finding("target-answers", "", Severity.OK, "RIGHT has 3 brokers", "", NOW + 1),
            Finding("partitions", "orders", Severity.WARN, "2 partitions, 3 of [bold]LEFT.orders\x1b[2J", fix, NOW + 1),
            *(Finding("partitions", f"t{n}", Severity.WARN, "2 partitions, 3", fix, NOW + 1) for n in range(5)),
            Finding("worker", "LEFT->RIGHT", Severity.CRITICAL, "nobody", "Start one: drlib mirror f", NOW + 1),
            Finding("lag", "", Severity.UNKNOWN, "the source does not answer", "", NOW + 1),
        ),
    )


@pytest.mark.parametrize("width", [80, 120])
def test_readiness_of_worst_finding_first_and_every_line_fits(width: int) -> None:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(render_readiness([readiness()], 80))
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert "NOT READY" in lines[0]
    assert "score 10 of 100, 80 required" in lines[0]
    text = out.getvalue()
    places = [text.index(word) for word in ("every lane", "the objective", "as many partitions", "RIGHT has 3 brokers")]
    assert places == sorted(places)
    assert "[bold]LEFT.orders" in text
    assert "\x1b" not in text
    assert "and 3 more, all in --json" in text
    assert "--partitions 3" in text


def test_readiness_unknown_checks_take_one_line_each_and_name_their_common_remedy_once() -> None:
    fix = "Restore RIGHT, then run drlib doctor again."
    unknown = [
        Finding(check, "", Severity.UNKNOWN, "RIGHT does not answer", fix, NOW + 1) for check in ("rights", "lag")
    ]
    out = io.StringIO()
    Console(file=out, width=120).print(render_readiness([Readiness("LEFT->RIGHT", NOW, tuple(unknown))], 80))
    lines = out.getvalue().splitlines()
    assert sum("RIGHT does not answer" in line and line.startswith("unknown") for line in lines) == 2
    assert out.getvalue().count(fix) == 1


def test_readiness_advice_costs_nothing_and_stands_behind_warnings_with_its_fix() -> None:
    advice = Finding("rights", "__transaction_state", Severity.ADVICE, "may not READ", "kafka-acls.sh --add", NOW + 1)
    of_rights = (Finding("rights", "", Severity.OK, "every right", "", NOW + 1), advice)
    with_it = Readiness("LEFT->RIGHT", NOW, (*readiness().findings, *of_rights))
    assert with_it.score == readiness().score + 7
    out = io.StringIO()
    Console(file=out, width=120, highlight=False).print(render_readiness([with_it], 80))
    (line,) = [line for line in out.getvalue().splitlines() if line.startswith("advice")]
    assert line.split() == ["advice", "the", "mirror", "has", "every", "right", "it", "needs"]  # no costs
    text = out.getvalue()
    assert "1 advice" in text
    places = [text.index(word) for word in ("as many partitions", "kafka-acls.sh --add", "RIGHT has 3 brokers")]
    assert places == sorted(places)


def test_doctor_json_has_every_finding_with_fix_and_expiry() -> None:
    (row,) = json.loads(as_json_text([readiness()], 80))
    assert (row["flow"], row["score"], row["minimum"], row["ready"]) == ("LEFT->RIGHT", 10, 80, False)
    assert [f["verdict"] for f in row["findings"]] == ["critical", "unknown", *["warn"] * 6, "ok"]
    assert row["findings"][0] == {
        "id": "worker",
        "entity": "LEFT->RIGHT",
        "title": "a worker mirrors every lane",
        "verdict": "critical",
        "weight": 10,
        "evidence": "nobody",
        "fix": "Start one: drlib mirror f",
        "expires_at_ms": NOW + 1,
    }


def test_drills_on_record_are_read_newest_first_and_unverified_ones_are_named(tmp_path: Path) -> None:
    assert past_drills(tmp_path / "cannot be moved") == PastDrills(str(tmp_path / "cannot be moved"), ())
    for name, card in (
        ("old", scorecard(finished_ms=NOW - 5)),
        ("b", unmeasured()),
        ("new", scorecard(finished_ms=NOW)),
    ):
        finished_run(tmp_path / name, card)
    (tmp_path / "d").mkdir()
    scorecard(run_id="d").write(tmp_path / "d" / "scorecard.json")
    edited = finished_run(tmp_path / "e", scorecard(verdict=Verdict.FAIL)) / "scorecard.json"
    edited.write_text(edited.read_text().replace('"fail"', '"pass"'))
    found = past_drills(tmp_path)
    assert isinstance(found, PastDrills)
    assert [(drill.run, drill.verdict) for drill in found.runs[:2]] == [("new", "conditions"), ("old", "conditions")]
    assert found.unverified == ("d", "e")
