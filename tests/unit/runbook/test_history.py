"""Which folders are runs."""

from pathlib import Path

from drlib.runbook.history import read_runs


def test_incident_of_the_training_is_no_run_and_a_runbook_of_that_name_is_one(tmp_path: Path) -> None:
    """A finished incident was listed as a run that was not finished."""
    for name, files in {
        "20261127T182036Z-incident-f237a5": ("baseline.json", "observations.json", "score.json"),
        "20261127T182037Z-incident-f237a6": ("plan.json",),
        "20261127T182038Z-rehearse-f237a7": (),
    }.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_text("{}")
    assert [run.outcome.run for run in read_runs(tmp_path)] == [
        "20261127T182037Z-incident-f237a6",
        "20261127T182038Z-rehearse-f237a7",
    ]
