"""Arguments of what notebooks call: a wrong one is refused by its name, a right one is passed on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from drlib.arguments import checked
from drlib.errors import UsageError


@checked
def opened(
    run_dir: str | Path = "",
    *,
    topics: Sequence[str] = (),
    lag: Annotated[float, Field(ge=0)] = 1.0,
    number: int = 3,
    plant: bool = True,
    **others: object,
) -> tuple[object, ...]:
    return run_dir, topics, lag, number, plant, others


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("run_dir", 5, "5 is not a str. Give a str."),
        ("topics", "orders", "'orders' is not a list[str]. Give a list[str]."),
        ("topics", ["orders", 3], "['orders', 3] is not a list[str]. Give a list[str]."),
        ("lag", "300", "'300' is not a float. Give a float."),
        ("lag", True, "True is not a float. Give a float."),
        ("lag", float("nan"), "nan is not a float. Give a float."),
        ("lag", -1, "-1 is less than 0.0. Use 0.0 or a greater number."),
        ("number", 2.5, "2.5 is not an int. Give an int."),
        ("plant", 1, "1 is not a bool. Give a bool."),
        ("number", "x" * 100, f"'{'x' * 59}... is not an int. Give an int."),
    ],
)
def test_checked_wrong_argument_is_refused_by_name(name: str, value: Any, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        opened(**{name: value})
    assert str(refused.value) == f"parameter {name}: {why}"


def test_checked_right_arguments_are_passed_on_as_they_are() -> None:
    given = Path("runs"), ["orders"], 3, 2, False, {"other": 1}
    assert opened(given[0], topics=given[1], lag=given[2], number=2, plant=False, other=1) == given
    assert opened() == ("", (), 1.0, 3, True, {})
    assert opened.__name__ == "opened"
