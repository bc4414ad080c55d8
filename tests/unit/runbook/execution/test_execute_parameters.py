"""The cell of parameters in an executed notebook: values stay values, whatever text they are."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from hostile_text import HOSTILE
from papermill.parameterize import parameterize_notebook

TEXTS = {name: text.encode(errors="replace").decode() for name, text in HOSTILE.items()}
TEXTS["code"] = "'''\nimport os; os.abort()\n'''"
TEXTS["code in double quotes"] = '"""\nimport os; os.abort()\n"""'
TEXTS["end of the line"] = "x\\"


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_parameters_of_any_text_are_read_back_as_they_were(text: str) -> None:
    notebook: Any = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("name = ''", metadata={"tags": ["parameters"]})],
        metadata={"kernelspec": {"name": "python3", "language": "python", "display_name": "Python"}, "papermill": {}},
    )
    values = {"name": text, "several": [text, text], "number": 5, "nothing": None}
    made = parameterize_notebook(notebook, values, kernel_name="python3", language="python")
    (injected,) = [cell for cell in made.cells if "injected-parameters" in cell.metadata.get("tags", ())]
    found: dict[str, object] = {}
    exec(injected.source, found)
    assert {name: found[name] for name in values} == values
