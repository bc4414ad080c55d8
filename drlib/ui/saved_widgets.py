"""What a saved notebook has in the place of widgets: a sentence, found where their kernel is not.

Rules: JupyterLab saves where a widget was shown, and not the widget, which lives in its kernel. A notebook that was opened
again looked it up and reported "widget model not found" as an error. So each notebook is saved with the sentence as the state
of those widgets, which JupyterLab takes for widgets that no kernel has; a reloaded page has the live ones. Nothing that a
widget showed is saved. What JupyterLab saved itself (Save Widget State) stays as it is.
Not for: JupyterLab started without `drlib notebook`; there the console's page replaces JupyterLab's text (`front_end`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

NOT_LIVE: Final = "The kernel that drew this has ended. Run the cell again."
VIEW: Final = "application/vnd.jupyter.widget-view+json"
STATE: Final = "application/vnd.jupyter.widget-state+json"
_CONTROLS: Final = {"model_module": "@jupyter-widgets/controls", "model_module_version": "2.0.0"}
_STAND_IN: Final = {**_CONTROLS, "model_name": "HTMLModel", "state": {"value": NOT_LIVE}}


def before_save(model: dict[str, Any], **_: object) -> None:
    """Jupyter's hook: `model` is what is about to be saved (`ContentsManager.pre_save_hook`)."""
    if model.get("type") == "notebook" and isinstance(model.get("content"), dict):
        stand_in(model["content"])


def stand_in(notebook: dict[str, Any]) -> None:
    """Change the widgets' state in `notebook` (nbformat 4): the sentence for each that is shown and has no state of its own."""
    metadata = notebook.setdefault("metadata", {})
    kept = metadata.get("widgets", {}).get(STATE, {})
    own = {name: each for name, each in kept.get("state", {}).items() if each != _STAND_IN}
    missing = dict.fromkeys(sorted(set(_shown(notebook)) - set(own)), _STAND_IN)
    if own or missing:
        version = {"version_major": 2, "version_minor": 0}
        metadata["widgets"] = {STATE: {**version, **kept, "state": {**own, **missing}}}
    else:
        metadata.pop("widgets", None)


def _shown(notebook: dict[str, Any]) -> Iterator[str]:
    """The models of the widgets in outputs; a view that was removed has none."""
    for cell in notebook.get("cells", ()):
        for output in cell.get("outputs", ()):
            view = output.get("data", {}).get(VIEW)
            if isinstance(view, dict) and view.get("model_id"):
                yield str(view["model_id"])
