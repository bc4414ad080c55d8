"""docs/pointer.md quotes the followers that the tests run, and names every field of the pointer."""

import json

import pytest
from repository_root import ROOT

from drlib.client.pointer import Pointer, encode
from drlib.client.pointer_topic import TOPIC

PAGE = (ROOT / "docs" / "pointer.md").read_text()
FOLLOWERS = ROOT / "docs" / "followers"


@pytest.mark.parametrize("name", ["PointerFollower.java", "go-topic/main.go", "go-file/main.go"])
def test_pointer_page_quotes_the_follower_that_is_tested(name: str) -> None:
    language = name.rpartition(".")[2]
    assert f"```{language}\n{(FOLLOWERS / name).read_text().strip()}\n```" in PAGE


def test_pointer_page_names_every_field_and_the_topic() -> None:
    whole = Pointer(1, "paris", "p:1", "lyon.", {"lyon.orders": (1,)}, hold=True, hold_limit_s=1.0, by="run 7")
    rows = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| `")]
    assert rows == [f"`{name}`" for name in json.loads(encode(whole))]
    assert f"topic `{TOPIC}` on every cluster" in PAGE
