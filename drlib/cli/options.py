"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Memory = Annotated[str, typer.Option(metavar="SIZE", help="What the worker may take in all, whatever the topics.")]
