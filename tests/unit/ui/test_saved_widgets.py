"""What a notebook is saved with where it shows widgets."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest

from drlib.ui.saved_widgets import NOT_LIVE, STATE, VIEW, before_save, stand_in

OWN = {"model_module": "m", "model_module_version": "1", "model_name": "SliderModel", "state": {"value": 3}}


def notebook(*shown: str, widgets: dict[str, Any] | None = None) -> dict[str, Any]:
    outputs = [nbformat.v4.new_output("display_data", {VIEW: {"model_id": name}}) for name in shown]
    cells = [nbformat.v4.new_markdown_cell("Text"), nbformat.v4.new_code_cell("console", outputs=outputs)]
    book: dict[str, Any] = nbformat.v4.new_notebook(cells=cells)
    if widgets is not None:
        book["metadata"]["widgets"] = {STATE: {"version_major": 2, "version_minor": 0, "state": widgets}}
    return book


def states(book: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = book["metadata"]["widgets"][STATE]["state"]
    return {name: each["state"]["value"] for name, each in found.items()}


def test_each_shown_widget_is_saved_as_the_sentence_and_the_notebook_is_valid() -> None:
    book = notebook("one", "two")
    stand_in(book)
    assert states(book) == {"one": NOT_LIVE, "two": NOT_LIVE}
    nbformat.validate(book)


def test_notebook_without_widgets_is_saved_as_it_is() -> None:
    book = notebook("")  # a view that was removed
    stand_in(book)
    assert "widgets" not in book["metadata"]


def test_sentences_of_widgets_that_are_no_longer_shown_are_taken_out() -> None:
    book = notebook("old")
    stand_in(book)
    book["cells"][1]["outputs"] = notebook("new")["cells"][1]["outputs"]
    stand_in(book)
    assert states(book) == {"new": NOT_LIVE}
    book["cells"][1]["outputs"] = []
    stand_in(book)
    assert "widgets" not in book["metadata"]


def test_state_that_jupyterlab_saved_stays() -> None:
    book = notebook("slider", "console", widgets={"slider": OWN, "layout": OWN})
    stand_in(book)
    assert states(book) == {"slider": 3, "layout": 3, "console": NOT_LIVE}


@pytest.mark.parametrize("model", [{"type": "file", "content": "x"}, {"type": "notebook", "content": None}, {}])
def test_hook_leaves_everything_but_notebooks_as_it_is(model: dict[str, Any]) -> None:
    before = dict(model)
    before_save(model, path="x", contents_manager=None)
    assert model == before
    shown = {"type": "notebook", "content": notebook("one")}
    before_save(shown)
    assert states(shown["content"]) == {"one": NOT_LIVE}  # type: ignore[arg-type]
