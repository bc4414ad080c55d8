"""`drlib translate`: translate positions of groups, or of applications that keep their own offsets, to the other cluster.

Rules: read-only. Share groups are listed apart from consumer groups: the start offset, and which records behind it need no
delivery. In JSON their rows have `share_group`, so that their offsets are not committed as those of a consumer group. With
`--offsets` the exit code is 3 when a position is unknown or would skip records (lost, never mirrored); the reason of each is
on stderr, and Spark's form is printed only if every position is known. JSON has the form of the input, so that the
application can use it as it is.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table

from drlib.cli import print_error
from drlib.errors import DrlibError, ReadinessError, UsageError
from drlib.formats import one_line
from drlib.mirror.offsets.translation.external_formats import ExternalOffsets, OffsetsForm, render, skips_no_record
from drlib.model import Flow, GroupTranslation, OffsetTranslation, Translation
from drlib.outgoing.terminal import show, write_document
from drlib.ui.terminal.plain_console import plain_console

if TYPE_CHECKING:
    from drlib.mirror.share_groups.translate import ShareTranslation


_SHARES_S: Final = 10.0
_INTERVALS: Final = 5


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
    from drlib.mirror.share_groups.known import NO_SHARES, known_shares
    from drlib.mirror.share_groups.translate import translate_shares

    settings, of = load_mirror_settings(file), Flow.parse(flow)
    settings.flow(of.source, of.target)
    known, unlisted = NO_SHARES, None
    try:
        known = known_shares(settings, of, alive=None, timeout_s=_SHARES_S)
    except DrlibError as error:  # consumer groups are translated all the same
        unlisted = error
    wanted = {key: at for key, at in known.positions.items() if group is None or key[0] in group}
    others = None if group is None else [name for name in group if name not in {each for each, _ in wanted}]
    translations = () if others == [] else translate_groups(settings, of, others)
    if unlisted is not None:
        print_error(f"share groups are not listed: {unlisted}")
    shares = translate_shares(wanted, lambda asked: translate_groups(settings, of, positions=asked))
    for name, refusal in known.refused.items():
        if group is None or name in group:
            print_error(f"share group {name} is not listed: {refusal.why}")
    for (name, _), refusal in known.unread.items():
        if group is None or name in group:
            print_error(f"share group {name} is not listed in full: {refusal.why}")
    for name, partition in known.unset:
        if group is None or name in group:
            print_error(
                f"share group {name} has no start offset in {partition}: share.auto.offset.reset says where it begins"
            )
    hint = visible_in_part(
        settings, of, {*(item.source.topic for item in translations), *(item.source.topic for item in shares)}
    )
    if hint:
        print_error(hint)
    if as_json:
        show(json.dumps([*map(_json_row, translations), *map(_share_row, shares)], indent=2))
        return
    if shares:
        plain_console().print(_share_table(flow, shares))
        if not translations:
            return
    table = _table(f"Positions for {flow}", "group", "source", "position", "target", "translated", "meaning")
    for item in translations:
        translation = item.translation
        offset = "-" if translation.offset is None else str(translation.offset)
        meaning = _meaning(translation) + (f": {item.why}" if item.why else "")
        source, position, target = str(item.source), str(item.source_offset), str(item.target)
        table.add_row(*map(one_line, (item.group, source, position, target, offset, meaning)))
    plain_console().print(table)


def _share_table(flow: str, shares: "Sequence[ShareTranslation]") -> Table:
    table = _table(
        f"Share groups for {flow}",
        "group",
        "source",
        "position",
        "target",
        "translated",
        "meaning",
        "acknowledged behind it",
    )
    for item in shares:
        offset = "-" if item.translation.offset is None else str(item.translation.offset)
        meaning = _meaning(item.translation) + (f": {item.why}" if item.why else "")
        cells = (item.group, str(item.source), str(item.known.state.start), str(item.target), offset, meaning)
        table.add_row(*map(one_line, (*cells, _acknowledged(item))))
    return table


def _acknowledged(item: "ShareTranslation") -> str:
    """The offsets on the target of records that need no delivery."""
    if item.behind is None:
        count = item.known.state.completed
        return "unknown" if count is None else f"{count:,}, and which is not known"
    shown = [f"{first}" if end == first + 1 else f"{first} to {end - 1}" for first, end in item.behind[:_INTERVALS]]
    more = len(item.behind) - _INTERVALS
    return (", ".join(shown) or "none") + (f", and {more:,} more stretches" if more > 0 else "")


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
        number = name in {"position", "translated"}
        table.add_column(one_line(name), justify="right" if number else "left", no_wrap=number, overflow="fold")
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
        **({} if item.both_maps is None else {"both_maps": item.both_maps}),
        **({"why": item.why} if item.why or item.both_maps is not None else {}),
    }


def _share_row(item: "ShareTranslation") -> dict[str, object]:
    return {
        "share_group": item.group,
        "topic": item.source.topic,
        "partition": item.source.partition,
        "position": item.known.state.start,
        "target_topic": item.target.topic,
        "offset": item.translation.offset,
        "acknowledged": None if item.behind is None else [list(each) for each in item.behind],
        "kind": item.translation.kind.value,
        "records": item.translation.records,
        "as_of_ms": item.known.as_of_ms,
    }
