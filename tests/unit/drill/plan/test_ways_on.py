"""How people can go on with an unfinished run, said in one place."""

import re

from repository_root import ROOT

from drlib.drill.plan.ways_on import WaysOn


def test_ways_on_of_a_run_whose_clusters_serve_are_to_resume_and_to_undo_it() -> None:
    on = WaysOn("runs/one")
    assert on.lines("move") == (
        "Continue: drlib run --resume runs/one --approve move",
        "Undo:     drlib run --rollback runs/one",
    )
    assert on.sentence == "Resume it: drlib run --resume runs/one. Or undo it: drlib run --rollback runs/one."
    assert on.undo_sentence == "Undo it: drlib run --rollback runs/one"


def test_ways_on_of_a_run_whose_clusters_end_with_it_is_to_start_it_again() -> None:
    on = WaysOn("runs/one", again="drlib run failover-drill --lab")
    assert on.rollback == ""
    for text in (*on.lines(), on.sentence, on.undo_sentence, on.resume):
        assert text.endswith("drlib run failover-drill --lab"), text
        assert not re.search(r"--resume|--rollback|Resume|Undo", text), text


def test_ways_on_of_a_run_whose_undo_was_refused_are_a_new_run_and_then_that_undo() -> None:
    on = WaysOn("runs/one", refused="go-home", instead="drlib run fail-back f --supersede one")
    for text in (on.sentence, "\n".join(on.lines())):
        assert "--resume" not in text
        assert text.index("drlib run fail-back f --supersede one") < text.index("drlib run --rollback runs/one")
        assert "undo of go-home" in text


def test_commands_that_go_on_with_a_run_are_written_in_one_module() -> None:
    """An example of the help and a docstring apart: what proposes them asks whether there is something to go on with."""
    written = re.compile(r"""["'].*(drlib run --(resume|rollback) \{|Resume (it|the run)[,.:]|then resume)""")
    sources = (ROOT / "drlib").rglob("*.py")
    found = {str(path.relative_to(ROOT / "drlib")) for path in sources if written.search(path.read_text())}
    assert found == {"drill/plan/ways_on.py"}
