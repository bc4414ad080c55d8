"""Options that several commands share."""

from typing import Annotated

import typer

Memory = Annotated[str, typer.Option(metavar="SIZE", help="Memory limit of the worker, for all topics together.")]
