"""What of a lesson's testbed needs no broker: names of orders, and which lab a lesson needs."""

from __future__ import annotations

from pathlib import Path

from drlib.training.academy.secured_testbed import SECURED
from drlib.training.academy.testbed import LessonLab, order_number


def test_text_that_is_no_order_is_none() -> None:
    texts = ("order 7", "order", "7", "order -1", "orders 7", "")
    assert [order_number(text) for text in texts] == [7, -1, -1, -1, -1, -1]


def test_lab_of_its_own_is_beside_the_learners_lab(tmp_path: Path) -> None:
    assert LessonLab().folder(tmp_path / ".lab") == tmp_path / ".lab"
    assert SECURED.folder(tmp_path / ".lab") == tmp_path / ".lab-secured"
    assert SECURED.folder(Path()).parent == Path.cwd().parent
    assert SECURED.aliases == ("paris", "lyon")
