"""The lag of groups by topic: sums, ages, order, and what is unknown."""

from __future__ import annotations

import pytest
from hostile_text import HOSTILE, elements

from drlib.mirror.monitor.flow_view import MIRRORING, FlowView
from drlib.mirror.monitor.survey import GroupPosition, GroupStatus
from drlib.model import TopicPartition, TranslationKind
from drlib.ui.console.show.matrix import GROUPS, matrix_html, matrix_lines, matrix_of
from drlib.ui.console.show.style import ROWS


def position(topic: str, partition: int, offset: int, end: int | None, age_s: float | None = 0.0) -> GroupPosition:
    return GroupPosition(TopicPartition(topic, partition), offset, end, age_s, TranslationKind.EXACT, offset)


def view(**groups: tuple[GroupPosition, ...]) -> FlowView:
    found = tuple(GroupStatus(name, len(at), 0, len(at), 0, 0, 0, at) for name, at in groups.items())
    return FlowView("A->B", MIRRORING, 0, 1, (), (), (), (), found, None, None)


def test_matrix_cell_sums_records_and_takes_the_oldest_age() -> None:
    found = matrix_of(view(readers=(position("t", 0, 5, 9, 2.0), position("t", 1, 1, 4, 75.0))))
    assert found.words("t", "readers") == "7, 75 s"
    assert list(matrix_lines(found)) == ["groups on t (A->B): readers 7, 75 s"]


def test_matrix_cell_with_an_unknown_part_is_unknown() -> None:
    found = matrix_of(
        view(a=(position("t", 0, 5, None, None), position("t", 1, 1, 4, 1.0)), b=(position("t", 0, 4, 9, None),))
    )
    assert found.words("t", "a") == "unknown, unknown"
    assert found.words("t", "b") == "5, unknown"


def test_matrix_without_a_position_is_not_without_lag() -> None:
    found = matrix_of(view(a=(position("t", 0, 9, 9),), b=(position("u", 0, 9, 9),)))
    assert (found.words("t", "a"), found.words("t", "b")) == ("0", "-")


def test_matrix_has_the_greatest_lag_first_and_unknown_before_it() -> None:
    found = matrix_of(
        view(
            calm=(position("calm", 0, 9, 9),),
            late=(position("busy", 0, 0, 900, 3.0), position("calm", 0, 8, 9, 1.0)),
            lost=(position("dark", 0, 0, None, None),),
        )
    )
    assert found.topics == ("dark", "busy", "calm")
    assert found.groups == ("lost", "late", "calm")


def test_matrix_says_how_much_it_leaves_out() -> None:
    many = {f"g{n}": tuple(position(f"t{m}", 0, 0, 1, 1.0) for m in range(ROWS + 2)) for n in range(GROUPS + 3)}
    page = "".join(matrix_html(matrix_of(view(**many))))
    assert "and 2 topics more" in page
    assert "and 3 groups more" in page
    assert page.count("<td") == ROWS * GROUPS


def test_matrix_of_no_group_is_not_drawn() -> None:
    assert list(matrix_html(matrix_of(view()))) == []


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_matrix_of_any_text_has_the_same_elements(text: str) -> None:
    def page(word: str) -> str:
        return "".join(matrix_html(matrix_of(view(**{f"g{word}": (position(f"t{word}", 0, 5, 9, 2.0),)}))))

    assert elements(page(text)) == elements(page("plain"))
