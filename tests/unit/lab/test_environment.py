"""LAB or PRODUCTION: what is not known to be a lab's is production, and the banner says it in words of enough contrast."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile_text import HOSTILE, elements
from hypothesis import given
from hypothesis import strategies as st

from drlib.lab import environment
from drlib.lab.environment import COLOURS, MOVES, Banner, Environment, banner_of, decide, environment_at

ADDRESSES = st.sets(st.integers(1, 9).map("127.0.0.1:{}".format))


@given(asked=ADDRESSES, of_lab=ADDRESSES)
def test_environment_is_a_lab_only_where_every_address_is_the_labs(asked: set[str], of_lab: set[str]) -> None:
    wanted = Environment.LAB if asked and asked <= of_lab else Environment.PRODUCTION
    assert decide(asked, of_lab) is wanted


def test_environment_of_a_file_in_no_labs_folder_or_unreadable_is_production(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    assert environment_at(file, lab=False) is Environment.PRODUCTION
    file.write_text("clusters = a, b\na.bootstrap.servers = h:1\nb.bootstrap.servers = h:2\n")
    (tmp_path / "state.json").write_text('{"clusters": {}, "extra": {}}')
    assert environment_at(file, lab=False) is Environment.PRODUCTION
    assert environment_at(file, lab=True) is Environment.LAB
    assert environment_at(None, lab=False) is None


def test_banner_names_flow_clusters_and_what_changes() -> None:
    banner = Banner(Environment.PRODUCTION, "paris->lyon", MOVES)
    assert str(banner) == "PRODUCTION  flow paris->lyon, clusters paris and lyon: real applications move."
    assert banner.text.replace(">", "&gt;") in banner.html()
    assert banner_of({**banner.facts(), "flow": "paris->lyon"}) == banner
    assert banner_of({"flow": "paris->lyon"}) is None
    assert str(Banner(Environment.LAB, "", environment.NO_RUN)) == "LAB  no run changes anything now."


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_banner_escapes_what_it_shows(text: str) -> None:
    page, plain = (Banner(Environment.PRODUCTION, f"{flow}->b", MOVES).html() for flow in (text, "a"))
    assert elements(page) == elements(plain)


@pytest.mark.parametrize("colour", COLOURS.values())
def test_banner_colours_have_the_contrast_of_wcag_aaa(colour: str) -> None:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) > 7
