"""`drlib remirror`: mirror topics again from the source's start whose mirror was deleted or contradicts the journal.

Rules: without `--yes` it is a plan and changes nothing. A running worker continues by itself, without a restart or an edited
file.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from drlib import formats
from drlib.errors import UsageError
from drlib.ui.terminal.plain_console import plain_console

if TYPE_CHECKING:
    from rich.console import Console

    from drlib.config.flow_settings import FlowSettings
    from drlib.config.settings import MirrorSettings
    from drlib.mirror.remirror.plan import AffectedGroup, TopicPlan


def remirror(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    topics: Annotated[list[str], typer.Argument(help="Topics of the source, by name.", metavar="TOPIC...")],
    flow: Annotated[str | None, typer.Option(help="The flow, where several mirror the topics: 'LEFT->RIGHT'.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Carry the plan out.")] = False,
) -> None:
    """Mirror parked topics again from the start of the source: those whose mirror was deleted or contradicts the journal.

    Shows what would be deleted and copied and which groups are affected, and changes nothing without --yes. The running
    worker then continues by itself.
    """
    from drlib.config.settings import load_mirror_settings
    from drlib.mirror.remirror.plan import carry_out, plan

    settings = load_mirror_settings(file)
    chosen = _flow(settings, flow, topics)
    plans = plan(settings, chosen, list(dict.fromkeys(topics)))
    console = plain_console()
    for planned in plans:
        _print(console, planned, chosen)
    if not yes:
        again = f" --flow '{chosen.flow}'" if flow is not None else ""
        console.print(
            f"Nothing was changed. To do it: drlib remirror {file} {' '.join(topics)}{again} --yes", soft_wrap=True
        )
        return
    carry_out(settings, chosen, plans)
    console.print(f"Done. A running worker continues within seconds: drlib status {file}", soft_wrap=True)


def _flow(settings: "MirrorSettings", name: str | None, topics: list[str]) -> "FlowSettings":
    from drlib.model import Flow

    if name is not None:
        wanted = Flow.parse(name)
        return settings.flow(wanted.source, wanted.target)
    flows = [f for f in settings.enabled_flows if all(f.mirrors_topic(topic) for topic in topics)]
    if len(flows) != 1:
        every = ", ".join(str(f.flow) for f in flows or settings.enabled_flows)
        raise UsageError(
            f"{'several flows mirror' if flows else 'no flow mirrors'} {', '.join(topics)}",
            f"{settings.path} enables {every or 'none'}",
            "Give one: --flow 'LEFT->RIGHT'." if flows else "Correct the names, or enable a flow that selects them.",
        )
    return flows[0]


def _print(console: "Console", planned: "TopicPlan", flow: "FlowSettings") -> None:
    source, target = flow.flow.source, flow.flow.target
    deleted = f"{planned.mirror} on {target}, {formats.records(planned.deleted)}" if planned.delete else "nothing"
    rows = [
        ("parked because", planned.why),
        ("deleted", deleted),
        ("copied again", f"at most {formats.records(planned.records)} of {source}, from its log start"),
        *((f"group {group.group}", _effect(planned, group, flow)) for group in planned.groups),
    ]
    if planned.unread:
        rows.append(("unknown", f"committed offsets of {', '.join(planned.unread)} cannot be read"))
    console.print(Text(f"{planned.source} -> {planned.mirror}", style="bold"), soft_wrap=True)
    for name, text in rows:
        console.print(f"  {formats.one_line(f'{name}: {text}')}", soft_wrap=True)


def _effect(planned: "TopicPlan", group: "AffectedGroup", flow: "FlowSettings") -> str:
    partitions = f"{group.partitions} partition{'' if group.partitions == 1 else 's'}"
    if group.cluster == flow.flow.source:
        return (
            f"on {group.cluster}: its positions in {partitions} of {planned.source} are unknown on {flow.flow.target} until "
            "the records before them are copied again; then they are exact"
        )
    if not planned.delete:
        return f"on {group.cluster}: its positions in {partitions} are of the topic that is gone"
    members = (
        "it has members, which then read from where auto.offset.reset says: stop them first. " if group.active else ""
    )
    after = (
        "translated positions are written as the copy continues"
        if flow.sync_group_offsets
        else "commit translated positions after the copy: drlib translate"
    )
    return f"on {group.cluster}: its positions in {partitions} are deleted with the topic. {members}{after}"
