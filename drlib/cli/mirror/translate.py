"""`drlib translate`: positions of groups, or of applications that keep their own, on the other cluster.

Rules: only looks. With `--offsets` the exit code is 3 when some position is unknown or would pass over records (lost, never
mirrored), each with its reason on stderr, and Spark's form is then printed only if every position is known. JSON comes in the
form of the input, so that it can be given to the application as it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from drlib.errors import ReadinessError, UsageError
from drlib.mirror.offsets.translation.external_formats import Form, KeptOffsets, skips_nothing, translated
from drlib.model import Flow, GroupTranslation, OffsetTranslation, Translation


def translate(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    flow: Annotated[str, typer.Option(help="From the cluster that is left to the other, e.g. 'LEFT->RIGHT'.")],
    group: Annotated[list[str] | None, typer.Option(help="A group; repeat for more. All when left out.")] = None,
    offsets: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Offsets an application keeps itself: JSON rows of topic, partition and offset, Spark's startingOffsets, "
            "or the checkpoint folder of a Structured Streaming query, which is only read.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON; with --offsets in the form of the input.")
    ] = False,
    form: Annotated[
        Form | None, typer.Option("--as", help="With --offsets: print JSON of this form, whatever the input was.")
    ] = None,
) -> None:
    """Say what positions are on the other cluster: exact, behind by n, or why not.

    Those that groups have committed, or with --offsets those that applications keep by themselves. Exit code with
    --offsets 0: nothing is passed over; 3: a position is unknown, or records before it never reached the other cluster.
    """
    from drlib.config.settings import load_mirror_settings

    if offsets is not None:
        if group:
            raise UsageError(
                "--group and --offsets do not go together",
                "the one is of positions that Kafka keeps, the other of those it does not",
                "Leave one of them out.",
            )
        raise typer.Exit(_offsets(file, Flow.parse(flow), offsets, as_json=as_json, form=form))
    if form is not None:
        raise UsageError("--as says nothing of groups", "it is the form of --offsets", "Add --offsets, or use --json.")
    from drlib.mirror.offsets.translation.translate_groups import translate_groups

    found = translate_groups(load_mirror_settings(file), Flow.parse(flow), group)
    if as_json:
        print(json.dumps([_row(item) for item in found], indent=2))
        return
    table = _table(f"Positions for {flow}", "group", "source", "position", "target", "translated", "meaning")
    for item in found:
        there = item.translation
        at = "-" if there.offset is None else str(there.offset)
        table.add_row(item.group, str(item.source), str(item.source_offset), str(item.target), at, _meaning(there))
    Console().print(table)


def _offsets(file: Path, flow: Flow, path: Path, *, as_json: bool, form: Form | None) -> int:
    from drlib.config.settings import load_mirror_settings
    from drlib.mirror.offsets.translation.external_files import read_offsets
    from drlib.mirror.offsets.translation.external_offsets import translate_kept

    settings, kept = load_mirror_settings(file), read_offsets(path)
    there = translate_kept(settings, flow, [(one.partition, one.offset) for one in kept.positions])
    for notice in kept.notices:
        print(f"drlib: {path}: {notice}.", file=sys.stderr)
    fine = skips_nothing(there)
    if as_json or form is not None:
        for answer in there:
            if not answer.translation.exact:
                print(f"drlib: {answer.source} at {answer.source_offset}: {_why(answer)}.", file=sys.stderr)
        print(translated(kept, there, form or kept.form))
    else:
        _show(flow, kept, there)
    return 0 if fine else ReadinessError.exit_code


def _show(flow: Flow, kept: KeptOffsets, there: Sequence[OffsetTranslation]) -> None:
    names = tuple(dict.fromkeys(name for one in kept.positions for name, _ in one.rest))
    table = _table(f"Positions for {flow}", *names, "source", "position", "target", "translated", "meaning")
    for one, answer in zip(kept.positions, there, strict=True):
        rest = dict(one.rest)
        table.add_row(
            *(str(rest.get(name, "")) for name in names),
            str(answer.source),
            str(answer.source_offset),
            "-" if answer.target is None else str(answer.target),
            str(answer.translation.offset) if answer.known else "-",
            _why(answer),
        )
    Console().print(table)


def _why(answer: OffsetTranslation) -> str:
    return _meaning(answer.translation) + (f": {answer.why}" if answer.why else "")


def _meaning(there: Translation) -> str:
    return there.kind.value + (f" by {there.records}" if there.records else "")


def _table(title: str, *names: str) -> Table:
    table = Table(title=title)
    for name in names:
        table.add_column(name, justify="right" if name in {"position", "translated"} else "left")
    return table


def _row(item: GroupTranslation) -> dict[str, object]:
    return {
        "group": item.group,
        "topic": item.source.topic,
        "partition": item.source.partition,
        "position": item.source_offset,
        "target_topic": item.target.topic,
        "offset": item.translation.offset,
        "kind": item.translation.kind.value,
        "records": item.translation.records,
        "as_of_ms": item.as_of_ms,
    }
