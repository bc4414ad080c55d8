"""Where an unfinished run continues, as its folder says."""

from pathlib import Path

from drlib.drill.assessment.observe import next_step


def test_next_step_of_a_folder_without_a_plan_is_unknown(tmp_path: Path) -> None:
    assert next_step(tmp_path) == ""
