"""Scorecard and verdicts: a table of what leads to what."""

from pathlib import Path

import pytest
import sample_scorecard as sample
from pydantic import ValidationError

from drlib.decoding import Undecodable
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Objectives, Records, Rpo, RtoSeconds, Scorecard
from drlib.runs.verdict import OBJECTIVE, exit_code, loss_checks, lost_records, objective_checks, overall

P, C, F, U = Verdict.PASS, Verdict.CONDITIONS, Verdict.FAIL, Verdict.UNKNOWN


def checks(*verdicts: Verdict, prefix: str = "") -> list[Check]:
    return [Check(name=f"{prefix}check {n}", verdict=v, evidence="seen") for n, v in enumerate(verdicts)]


@pytest.mark.parametrize(
    ("verdicts", "lost", "expected"),
    [
        ([], 0, U),
        ([P], 0, P),
        ([P, P], 0, P),
        ([P], 5, C),
        ([P], None, U),
        ([P, C], 0, C),
        ([C], 5, C),
        ([C], None, U),
        ([P, U], 0, U),
        ([C, U], 5, U),
        ([U], None, U),
        ([P, F], 0, F),
        ([F, U], 0, F),
        ([U, F], None, F),
        ([F, C], 5, F),
    ],
)
def test_overall_verdict_table(verdicts: list[Verdict], lost: int | None, expected: Verdict) -> None:
    assert overall(checks(*verdicts), lost) is expected


@pytest.mark.parametrize(
    ("plain", "objectives", "code"),
    [
        ([P], [], 0),
        ([P], [P], 0),
        ([C], [P], 0),
        ([P], [F], 7),
        ([P], [F, F], 7),
        ([C], [F], 7),
        ([U], [F], 7),
        ([F], [P], 6),
        ([F], [F], 6),
        ([U], [P], 6),
        ([P], [U], 6),
        ([], [], 6),
    ],
)
def test_exit_code_table(plain: list[Verdict], objectives: list[Verdict], code: int) -> None:
    found = [*checks(*plain), *checks(*objectives, prefix=OBJECTIVE)]
    assert exit_code(overall(found, 0), found) == code


@pytest.mark.parametrize(
    ("objectives", "rto", "rpo", "expected"),
    [
        (Objectives(), 5.0, (3, 0.1), []),
        (Objectives(rto_seconds=30), 12.5, (0, 0.0), [(P, "12.5 of at most 30 seconds: 17.5 seconds to spare")]),
        (Objectives(rto_seconds=30), 30.0, (0, 0.0), [(P, "30 of at most 30 seconds: 0 seconds to spare")]),
        (Objectives(rto_seconds=30), 30.001, (0, 0.0), [(F, "30.001 of at most 30 seconds: 0.001 seconds too many")]),
        (Objectives(rto_seconds=30), None, (0, 0.0), [(U, "not measured")]),
        (Objectives(rpo_records=0), 1.0, (0, 0.0), [(P, "0 of at most 0 records: 0 records to spare")]),
        (Objectives(rpo_records=0), 1.0, (1, 0.0), [(F, "1 of at most 0 records: 1 records too many")]),
        (Objectives(rpo_records=20_000_000), 1.0, (12_345_678, 0.0), [(P, "12,345,678 of at most 20,000,000 records")]),
        (Objectives(rpo_records=10, rpo_seconds=1), 1.0, (None, 2.0), [(U, "not measured"), (F, "2 of at most 1")]),
    ],
)
def test_objective_checks_compare_measured_with_allowed(
    objectives: Objectives, rto: float | None, rpo: tuple[int | None, float | None], expected: list[tuple[Verdict, str]]
) -> None:
    found = objective_checks(objectives, RtoSeconds(total=rto), Rpo(records=rpo[0], seconds=rpo[1]))
    assert [check.verdict for check in found] == [verdict for verdict, _ in expected]
    for check, (_, evidence) in zip(found, expected, strict=True):
        assert evidence in check.evidence
        assert check.name.startswith(OBJECTIVE)


def test_objective_checks_lower_bound_of_loss_is_a_condition() -> None:
    """0 known to be missing is no 0 lost: the source died with what it acknowledged last."""
    objectives = Objectives(rpo_records=10, rpo_seconds=1)
    found = objective_checks(objectives, RtoSeconds(total=1.0), Rpo(records=0, seconds=2.0, at_least=True))
    assert [check.verdict for check in found] == [Verdict.CONDITIONS, F]
    assert found[0].evidence.startswith(
        "at least 0 of at most 10 records; records that the source acknowledged after its last answer"
    )
    assert overall(found[:1], 0) is Verdict.CONDITIONS


@pytest.mark.parametrize(
    ("rpo", "verdict", "evidence"),
    [
        (Rpo(seconds=4.0, seconds_at_least=0.0), P, "4 of at most 5"),
        (Rpo(seconds=60.0, seconds_at_least=0.0), U, "not measured closely enough: between 0 and 60 of at most 5"),
        (Rpo(seconds=60.0, seconds_at_least=50.0), F, "at least 50 of at most 5"),
        (Rpo(seconds=4.0, seconds_at_least=0.0, at_least=True), C, "between 0 and 4 of at most 5"),
        (Rpo(seconds=None, why="no report of t-0"), U, "not measured: no report of t-0"),
    ],
)
def test_objective_checks_bounds_pass_by_the_worst_one_only(rpo: Rpo, verdict: Verdict, evidence: str) -> None:
    (check,) = objective_checks(Objectives(rpo_seconds=5), RtoSeconds(), rpo)
    assert check.verdict is verdict
    assert check.evidence.startswith(evidence)


@pytest.mark.parametrize(
    "objectives", [Objectives(rto_seconds=5), Objectives(rpo_seconds=5), Objectives(rpo_records=5)]
)
@pytest.mark.parametrize("figure", [None, float("nan"), float("inf"), -1.0])
def test_objective_of_a_figure_that_is_no_amount_never_passes(objectives: Objectives, figure: float | None) -> None:
    rpo = Rpo.model_construct(records=figure, seconds=figure)
    (check,) = objective_checks(objectives, RtoSeconds.model_construct(total=figure), rpo)
    assert check.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("name", ["rto_seconds", "rpo_seconds", "rpo_records"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1])
def test_objective_that_no_figure_can_miss_or_keep_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValidationError):
        Objectives.model_validate({name: value})


UNKNOWN_LOSS = Rpo(records=None, seconds=2.0, seconds_at_least=0.0, at_least=True, why="no report of t-0")


@pytest.mark.parametrize(
    ("objectives", "rpo", "records", "expected", "evidence"),
    [
        (Objectives(), UNKNOWN_LOSS, None, C, "it is unknown, and no objective in records is set; no report of t-0"),
        (Objectives(rpo_seconds=5), UNKNOWN_LOSS, None, C, "it is unknown, and no objective"),
        (Objectives(rpo_records=5), UNKNOWN_LOSS, None, U, ""),
        (Objectives(rpo_records=5, rpo_seconds=5), UNKNOWN_LOSS, None, U, ""),
        (Objectives(), Rpo(records=None), None, C, "it is unknown"),
        (Objectives(), Rpo(records=0, at_least=True), None, C, "at least 0, and no objective in records is set"),
        (Objectives(), Rpo(records=0), None, P, ""),
        (Objectives(), Rpo(records=3), None, C, ""),
        (Objectives(rpo_records=5), Rpo(records=3), None, C, ""),
        (Objectives(), Rpo(measured=False), None, P, ""),
        (Objectives(), UNKNOWN_LOSS, Records(lost=0), P, ""),
        (Objectives(), UNKNOWN_LOSS, Records(lost=None), U, ""),
        (Objectives(), Rpo(records=0), Records(lost=3), C, ""),
    ],
)
def test_loss_that_a_step_looked_for_is_no_pass_unless_it_is_known_to_be_none(
    objectives: Objectives, rpo: Rpo, records: Records | None, expected: Verdict, evidence: str
) -> None:
    named = loss_checks(objectives, rpo, records)
    found = [*checks(P), *objective_checks(objectives, RtoSeconds(), rpo), *named]
    assert overall(found, lost_records(records, rpo)) is expected
    assert [check.evidence.startswith(evidence) for check in named] == [True] * bool(evidence)


def card(**changes: object) -> Scorecard:
    fields: dict[str, object] = {
        "runbook": "drill",
        "run_id": "one",
        "verdict": P,
        "rto_seconds": RtoSeconds(detect=1.5, total=None),
        "rpo": Rpo(records=0, seconds=0.0),
        "records": Records(produced=10),
        "groups": (),
        "checks": tuple(checks(P)),
    }
    return Scorecard.model_validate({**fields, **changes})


def test_scorecard_round_trips_through_its_file(tmp_path: Path) -> None:
    path = tmp_path / "scorecard.json"
    card().write(path)
    card(run_id="two").write(path)
    assert Scorecard.read(path) == card(run_id="two")
    assert [p.name for p in tmp_path.iterdir()] == ["scorecard.json"]


@pytest.mark.parametrize(
    "changes", [{"verdict": "maybe"}, {"score": 1}, {"rpo": {"records": "few"}}, {"records": {"lost": 1.5}}]
)
def test_scorecard_malformed_file_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        card(**changes)


def test_scorecard_is_frozen() -> None:
    with pytest.raises(ValidationError):
        card().verdict = F


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ('"lost":118', '"lost":"118"'),
        ('"started_ms":1', '"started_ms":9991'),
        ('"seconds":0.031', '"seconds":"0.031"'),
        ('"started_ms":', '"started_ms":1.0,"x":'),
    ],
)
def test_scorecard_number_in_quotes_or_of_another_kind_is_refused(was: str, now: str) -> None:
    text = sample.scorecard().model_dump_json()
    assert Scorecard.parse(text.encode()) == sample.scorecard()
    assert was in text
    with pytest.raises(Undecodable):
        Scorecard.parse(text.replace(was, now).encode())
