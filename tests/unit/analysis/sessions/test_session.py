"""What an analysis says where it found nothing: of what it did not read it says that, and not that it is clean."""

from __future__ import annotations

import pytest

from drlib.analysis.sessions.session import Row, table_of_found


@pytest.mark.parametrize(
    ("rows", "topics", "unread", "title", "note"),
    [
        ([], 2, [], "No record differs", "half"),
        ([], 2, ["orders"], "No record differs", "half; not read: orders"),
        ([], 2, ["orders", "prices"], "No topic could be read", "half; not read: orders, prices"),
        ([{"topic": "prices"}], 2, ["orders"], "Evidence", "half; not read: orders"),
    ],
)
def test_table_of_found_unread_topics_are_named_and_not_clean(
    rows: list[Row], topics: int, unread: list[str], title: str, note: str
) -> None:
    table = table_of_found("Evidence", rows, "No record differs", topics, unread, "half")
    assert (table.title, table.note) == (title, note)
