"""The `papermill.engine` entry point `drlib`, which loads what it needs when it is used.

Rules: papermill loads its entry points while it is itself being imported, so nothing here may import papermill, or one
of the two would meet the other half made, whichever came first. The engine is `drlib.runbook.execution.notebook_client`.
"""

from typing import Any


class DrlibEngine:
    """What papermill asks of an engine (`papermill.engines.Engine`), handed on."""

    @classmethod
    def execute_notebook(cls, nb: Any, kernel_name: str, **options: Any) -> Any:
        return _engine().execute_notebook(nb, kernel_name, **options)

    @staticmethod
    def nb_kernel_name(nb: Any, name: str | None = None) -> Any:
        return _engine().nb_kernel_name(nb, name)

    @staticmethod
    def nb_language(nb: Any, language: str | None = None) -> Any:
        return _engine().nb_language(nb, language)


def _engine() -> Any:
    from drlib.runbook.execution.notebook_client import NotebookEngine

    return NotebookEngine
