"""Names in a file that are no topics, and the topics that were probably meant."""

from __future__ import annotations

import pytest

from drlib.config.patterns.missing_topics import distance, missing_topics


@pytest.mark.parametrize(
    ("entry", "topics", "suggestion"),
    [
        ("abc", {"abd"}, None),  # a quarter of the name: no letter of three, one of four, two of eight
        ("abcd", {"abce"}, "abce"),
        ("abcdefg", {"abcdexy"}, None),
        ("abcdefgh", {"abcdefxy"}, "abcdefxy"),
        ("abcdefghijklmnopqrst", {"abcdefghijklmnopqxyz"}, None),  # two letters at most
        ("abcdefghijkl", {"abcdefghijxy", "abcdefghijkx"}, "abcdefghijkx"),
        ("abcdefghijkl", {"abcdefghijkz", "abcdefghijkx", "bbcdefghijkm"}, "abcdefghijkx"),
        ("abcdefghijkl", {"abcdefghij"}, "abcdefghij"),
    ],
)
def test_missing_topic_suggestion_is_the_nearest_within_a_quarter_of_the_name(
    entry: str, topics: set[str], suggestion: str | None
) -> None:
    assert missing_topics([entry], topics) == {entry: suggestion}


def test_missing_topics_blank_entries_and_patterns_are_none() -> None:
    assert missing_topics(["", " ", "a.b", "a$"], {"a.b"}) == {}


@pytest.mark.parametrize(
    ("one", "other", "edits"), [("ab", "ba", 1), ("abc", "bac", 1), ("cab", "cba", 1), ("abc", "cab", 2)]
)
def test_distance_letters_may_be_swapped_anywhere(one: str, other: str, edits: int) -> None:
    assert distance(one, other) == edits
