"""Which cells of a runbook's notebook are reported as steps."""

import json

import pytest
from repository_root import ROOT

from drlib.runbook.execution.notebook_client import is_absent


@pytest.mark.parametrize(
    ("source", "steps", "absent"),
    [
        ('drill.until("fence", optional=True)', {"decide", "verify"}, True),
        ('drill.until("fence", optional=True)', {"fence"}, False),
        ('drill.until("fence", optional=True)', None, False),  # not known
        ('drill.until("fence")', {"decide"}, False),  # it is refused by the drill
        ('drill.until("go-home" if drill.drill.mode == "planned" else "move", optional=True)', {"decide"}, True),
        ('drill.until("go-home" if drill.drill.mode == "planned" else "move", optional=True)', {"move"}, False),
        ('drill.until("a", optional=True)\ndrill.until("b", optional=True)', {"b"}, False),
        ("drill.finish()", {"decide"}, False),
    ],
)
def test_cell_of_steps_that_the_drill_lacks_is_not_reported(source: str, steps: set[str] | None, absent: bool) -> None:
    assert is_absent(source, steps) is absent


def test_rehearsal_reports_none_of_the_steps_that_would_move_applications() -> None:
    """A rehearsal on production named `move the applications` as it passed the cell over."""
    cells = json.loads((ROOT / "notebooks" / "10_run_a_drill.ipynb").read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if "optional=True" in "".join(cell["source"])]
    reported = [source for source in sources if not is_absent(source, {"decide", "translate", "verify"})]
    assert len(sources) > 5
    assert [source.partition('"')[2].partition('"')[0] for source in reported] == ["decide", "translate", "verify"]
