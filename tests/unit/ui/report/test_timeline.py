"""The timeline says what the journal says, in words; nothing empty, no moment as a number of milliseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.runs.journal import DrillJournal, Scalar, read
from drlib.ui.report.timeline import moments

AT = 1_795_310_977_362


@pytest.mark.parametrize(
    ("event", "data", "step", "what"),
    [
        ("step-started", {"step": "mirror", "detail": ""}, "mirror", "begins"),
        (
            "step-succeeded",
            {"seconds": 10.28, "worker": "mirror-1", "mirror_lag_records": 12345, "step": "mirror", "detail": ""},
            "mirror",
            "done in 10.3 s: worker mirror-1; mirror lag records 12,345",
        ),
        ("step-succeeded", {"seconds": 0.96, "at_ms": AT, "step": "kill"}, "kill", "done in 0.960 s: at 01:29:37.362"),
        ("step-succeeded", {"step": "a", "held_ms": 512, "left": None}, "a", "done: held ms 512; left unknown"),
        (
            "step-succeeded",
            {"step": "a", "rpo_records": 1000, "rpo_at_least": True},
            "a",
            "done: rpo records at least 1,000",
        ),
        ("step-succeeded", {"step": "a", "rpo_records": 0, "rpo_at_least": False}, "a", "done: rpo records 0"),
        ("step-succeeded", {"step": "a", "rpo_records": None, "rpo_at_least": True}, "a", "done: rpo records unknown"),
        ("step-failed", {"step": "a", "error": "it broke"}, "a", "failed: error it broke"),
        ("probed", {"step": "a", "detail": "partly", "evidence": ""}, "a", "checked: partly"),
        ("hypothesis-held", {"step": "", "detail": "before"}, "hypothesis held", "before"),
        ("run-started", {"plan": "6e2c6f2ae3b43654f", "pid": 19328}, "run started", "plan 6e2c6f2ae3b4; pid 19328"),
        ("something-new", {"step": "", "seconds": 2.0}, "something new", "seconds 2"),
    ],
)
def test_timeline_line_in_words(tmp_path: Path, event: str, data: dict[str, Scalar], step: str, what: str) -> None:
    DrillJournal(tmp_path / "journal.jsonl").write(event, **data)
    (moment,) = moments(read(tmp_path / "journal.jsonl"))
    assert (moment.step, moment.what, moment.after) == (step, what, 0.0)
