"""`drlib translate`: translate positions of groups, or of applications that keep their own offsets, to the other cluster.

Rules: read-only. With `--offsets` the exit code is 3 when a position is unknown or would skip records (lost, never mirrored);
the reason of each is on stderr, and Spark's form is printed only if every position is known. JSON has the form of the
input, so that the application can use it as it is.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from drlib.cli import print_error
from drlib.errors import ReadinessError, UsageError
from drlib.formats import one_line
from drlib.mirror.offsets.translation.external_formats import ExternalOffsets, OffsetsForm, render, skips_no_record
from drlib.model import Flow, GroupTranslation, OffsetTranslation, Translation
from drlib.outgoing.terminal import show, write_document
from drlib.ui.terminal.plain_console import plain_console


def translate(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    flow: Annotated[
        str, typer.Option(help="From the cluster that groups leave to the one they move to, e.g. 'LEFT->RIGHT'.")
    ],
    group: Annotated[list[str] | None, typer.Option(help="A group; repeat for more. Default: all groups.")] = None,
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
        OffsetsForm | None,
        typer.Option("--as", help="With --offsets: print JSON of this form, whatever the input was."),
    ] = None,
) -> None:
    """Translate positions to the other cluster: exact, behind by n, or why not.

    Translates the committed offsets of groups, or with --offsets those that applications keep themselves. Exit code with
    --offsets 0: no record is skipped; 3: a position is unknown, or records before it never reached the other cluster.
    """
    from drlib.config.settings import load_mirror_settings

    if offsets is not None:
        if group:
            raise UsageError(
                "--group and --offsets do not go together",
                "--group selects positions that Kafka keeps, --offsets names positions that it does not",
                "Leave one of them out.",
            )
        raise typer.Exit(_translate_external(file, Flow.parse(flow), offsets, as_json=as_json, form=form))
    if form is not None:
        raise UsageError(
            "--as does not apply to groups", "it chooses the form of --offsets", "Add --offsets, or use --json."
        )
    from drlib.mirror.offsets.translation.transactional_topics import visible_in_part
    from drlib.mirror.offsets.translation.translate_groups import translate_groups

    settings = load_mirror_settings(file)
    translations = translate_groups(settings, Flow.parse(flow), group)
    hint = visible_in_part(settings, Flow.parse(flow), {item.source.topic for item in translations})
    if hint:
        print_error(hint)
    if as_json:
        show(json.dumps([_json_row(item) for item in translations], indent=2))
        return
    table = _table(f"Positions for {flow}", "group", "source", "position", "target", "translated", "meaning")
    for item in translations:
        translation = item.translation
        offset = "-" if translation.offset is None else str(translation.offset)
        meaning = _meaning(translation) + (f": {item.why}" if item.why else "")
        source, position, target = str(item.source), str(item.source_offset), str(item.target)
        table.add_row(*map(one_line, (item.group, source, position, target, offset, meaning)))
    plain_console().print(table)


def _translate_external(file: Path, flow: Flow, path: Path, *, as_json: bool, form: OffsetsForm | None) -> int:
    """Translate and print the offsets in `path`; returns the exit code."""
    from drlib.config.settings import load_mirror_settings
    from drlib.mirror.offsets.translation.external_files import read_offsets
    from drlib.mirror.offsets.translation.external_offsets import translate_external_offsets

    settings, external = load_mirror_settings(file), read_offsets(path)
    positions = [(position.partition, position.offset) for position in external.positions]
    translations = translate_external_offsets(settings, flow, positions)
    for notice in external.notices:
        print_error(f"{path}: {notice}.")
    if as_json or form is not None:
        for item in translations:
            if not item.translation.exact:
                print_error(f"{item.source} at {item.source_offset}: {_reason(item)}.")
        write_document(render(external, translations, form or external.form) + "\n")
    else:
        _print_external(flow, external, translations)
    return 0 if skips_no_record(translations) else ReadinessError.exit_code


def _print_external(flow: Flow, external: ExternalOffsets, translations: Sequence[OffsetTranslation]) -> None:
    extra_names = tuple(dict.fromkeys(name for position in external.positions for name, _ in position.extra))
    table = _table(f"Positions for {flow}", *extra_names, "source", "position", "target", "translated", "meaning")
    for position, item in zip(external.positions, translations, strict=True):
        extra = dict(position.extra)
        table.add_row(
            *(one_line(str(extra.get(name, ""))) for name in extra_names),
            one_line(str(item.source)),
            str(item.source_offset),
            "-" if item.target is None else one_line(str(item.target)),
            str(item.translation.offset) if item.known else "-",
            one_line(_reason(item)),
        )
    plain_console().print(table)


def _reason(item: OffsetTranslation) -> str:
    return _meaning(item.translation) + (f": {item.why}" if item.why else "")


def _meaning(translation: Translation) -> str:
    return translation.kind.value + (f" by {translation.records}" if translation.records else "")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for name in columns:
        table.add_column(one_line(name), justify="right" if name in {"position", "translated"} else "left")
    return table


def _json_row(item: GroupTranslation) -> dict[str, object]:
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
        **({} if item.both_maps is None else {"both_maps": item.both_maps, "why": item.why}),
    }
