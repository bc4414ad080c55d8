"""The table of commands: what `drlib --help` lists by task, where each command is, and the examples of its help.

Rules: nothing here imports a command; `drlib.cli.app` does, when one is called or asked for its help. A summary fits on one
line of 80 columns. Every command and subcommand has an example, and every example is a line that is accepted, which tests try.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Command:
    """`home` is `module:name` of the function or of the typer application with its subcommands."""

    name: str
    home: str
    summary: str


@dataclass(frozen=True, slots=True)
class Example:
    """A command line as it is typed, and what it does."""

    line: str
    what: str


FILE: Final = "connect-mirror-maker.properties"

TASKS: Final[Mapping[str, tuple[Command, ...]]] = {
    "Emergency": (
        Command(
            "failover", "drlib.cli.drill.failover:failover", "the source is down: assess, then move the applications"
        ),
        Command("failback", "drlib.cli.drill.failback:failback", "it is back: settle what only it has, move home"),
        Command("abort", "drlib.cli.drill.drills:abort", "stop a run, or all, and roll it back"),
        Command(
            "witness", "drlib.cli.drill.witness:witness", "tell a failover elsewhere which clusters this host reaches"
        ),
    ),
    "Practise": (
        Command("doctor", "drlib.cli.mirror.doctor:doctor", "ready for a failover? score, findings, fixes"),
        Command("init", "drlib.cli.drill.init:init", "write runbooks for your clusters"),
        Command("plan", "drlib.cli.drill.drills:plan", "what a runbook would change on your clusters; changes nothing"),
        Command("run", "drlib.cli.drill.drills:run", "run a runbook, a drill or an analysis: verdict and report"),
        Command("runs", "drlib.cli.runs.runs:runs_app", "past runs, trends of RTO and RPO, overdue runbooks"),
        Command("evidence", "drlib.cli.runs.evidence:evidence", "a year's drills as one package for an audit"),
        Command(
            "schedule", "drlib.cli.runs.schedule:schedule_app", "print a file for cron, systemd, Airflow or Jupyter"
        ),
    ),
    "Mirror": (
        Command("mirror", "drlib.cli.mirror.mirror:mirror", "mirror every enabled flow, in MirrorMaker 2's place"),
        Command("copy", "drlib.cli.mirror.copy:copy", "copy topics exactly once, without a file"),
        Command(
            "remirror", "drlib.cli.mirror.remirror:remirror", "mirror topics that are parked from the source's start"
        ),
        Command(
            "bootstrap",
            "drlib.cli.clients.bootstrap:bootstrap",
            "one address for clients; it leads to the active cluster",
        ),
        Command(
            "producer-ids",
            "drlib.cli.clients.producer_ids:producer_ids",
            "set the clusters' producer IDs apart, for redirected clients",
        ),
        Command("config", "drlib.cli.mirror.config:config_app", "explain every value of a file, or convert one"),
        Command("service", "drlib.cli.mirror.service:service_app", "print a systemd unit, alert rules or a dashboard"),
        Command("size", "drlib.cli.mirror.size:size", "workers, lanes and memory that a link needs"),
    ),
    "Look": (
        Command("status", "drlib.cli.mirror.status:status", "lag, time to catch up, retention, events with remedies"),
        Command(
            "translate", "drlib.cli.mirror.translate:translate", "committed offsets, as offsets on the other cluster"
        ),
        Command("inventory", "drlib.cli.clients.inventory:inventory", "who uses the topics, and how each would move"),
        Command("pointer", "drlib.cli.clients.pointer:pointer_app", "which cluster is active: show, move, watch"),
    ),
    "Lab and training": (
        Command("lab", "drlib.cli.lab:lab_app", "real Kafka clusters on this machine"),
        Command("notebook", "drlib.cli.notebook:notebook", "JupyterLab with the first notebook open"),
        Command("academy", "drlib.cli.academy:academy_app", "progress in the lessons L0 to L8"),
        Command("incident", "drlib.cli.incident:incident_app", "find and repair a hidden fault, for a score"),
    ),
}

# Of subcommands.
SUMMARIES: Final[Mapping[str, str]] = {
    "runs verify": "is each file of a run what its manifest says?",
    "runs report": "the report of a run as Markdown or PDF",
    "runs settle": "declare which cluster serves, after a move without drlib",
    "schedule emit": "print the file; installs nothing",
    "config explain": "every effective value, its line in the file, its meaning",
    "config import": "make a file of Kafka Connect's or Strimzi's form",
    "service systemd": "print a hardened unit of one worker",
    "service bootstrap": "print a hardened unit of a bootstrap address",
    "service prometheus": "print alert rules",
    "service grafana": "print a dashboard",
    "pointer show": "where it is, what it says, whether all copies agree",
    "pointer move": "move it by hand; groups are not translated",
    "pointer publish": "write the newest one where it is missing or old",
    "pointer watch": "print each change until Ctrl-C",
    "lab up": "start clusters and the link between them",
    "lab status": "list the lab's processes with their pids",
    "lab down": "stop everything the lab started, and remove its data",
    "academy status": "state, attempts, hints and points of each lesson",
    "academy reset": "delete the progress and points of lessons",
    "incident list": "every move and every possible diagnosis",
    "incident start": "start clusters and applications; the fault follows",
    "incident status": "what an operator can see",
    "incident act": "make one move",
    "incident diagnose": "record a diagnosis",
    "incident hint": "what the next hint costs; with --take, show it",
    "incident finish": "measure, show score and cause, take the lab down",
    "incident reveal": "cause and events of a finished incident",
    "incident solve": "let the reference player solve one",
    "incident inject": "game master: one more fault, now",
    "incident master": "game master: faults, recovery, the player's moves",
    "incident debriefing": "a team's estimates, and the time its actions took",
    "incident end": "end without a score, and take the lab down",
}

FIRST: Final = (
    Example(
        "drlib run failover-drill --lab", "two clusters are started, one is killed, applications continue; a report"
    ),
    Example("drlib lab up", "two clusters that stay, to try everything else on"),
    Example(f"drlib mirror {FILE}", "MirrorMaker 2's file, unchanged"),
    Example(f"drlib doctor {FILE}", "what is missing for a failover"),
)

# By the words of the command.
EXAMPLES: Final[Mapping[str, tuple[Example, ...]]] = {
    "failover": (
        Example(f"drlib failover {FILE}", "assess, ask for the target's name, then move"),
        Example(f"drlib failover {FILE} 'paris->lyon' --yes lyon", "without a question, one flow of several"),
    ),
    "failback": (
        Example(f"drlib failback {FILE}", "assess, ask what becomes of unreplicated records, then return"),
        Example(f"drlib failback {FILE} --tail quarantine --yes paris", "without questions"),
    ),
    "abort": (
        Example("drlib abort 20261125T031205Z-failover-0a1b2c", "one run, as drlib runs lists it"),
        Example("drlib abort --all", "every run that a process executes"),
    ),
    "witness": (Example(f"drlib witness {FILE} --at 0.0.0.0:9470", "at a third place"),),
    "doctor": (
        Example(f"drlib doctor {FILE}", "score, findings and fixes of every enabled flow"),
        Example(f"drlib doctor {FILE} --rights --role drill", "the rights of one role as kafka-acls.sh commands"),
        Example(f"drlib doctor {FILE} --metrics 127.0.0.1:9465", "check every 5 minutes, for Prometheus"),
    ),
    "init": (
        Example(f"drlib init {FILE} --rto 5m --rpo 30s", "runbooks with objectives in runbooks/ beside the file"),
    ),
    "plan": (
        Example(f"drlib plan emergency-failover {FILE}", "what a failover would change; prints the hash to run it by"),
    ),
    "run": (
        Example(
            "drlib run failover-drill --lab", "a shipped runbook by its name, on clusters that it starts and stops"
        ),
        Example(f"drlib run runbooks/rehearse.yaml {FILE}", "a runbook of your own, on your clusters"),
        Example("drlib run --resume 20261125T031205Z-failover-0a1b2c", "continue an unfinished run"),
    ),
    "runs": (
        Example("drlib runs", "past runs, newest first"),
        Example("drlib runs --check", "exit code 3 when a runbook is overdue or its last run failed"),
    ),
    "runs verify": (Example("drlib runs verify", "is each file of each run what its manifest says?"),),
    "runs report": (
        Example("drlib runs report 20261125T031205Z-failover-0a1b2c --pdf report.pdf", "on A4, by a Chromium here"),
    ),
    "evidence": (Example(f"drlib evidence {FILE} --year 2026", "JSON and Markdown in evidence-2026/"),),
    "runs settle": (
        Example(f"drlib runs settle {FILE} --flow 'paris->lyon' --serves lyon", "after a move without drlib"),
    ),
    "schedule": (Example(f"drlib schedule emit runbooks/rehearse.yaml {FILE} --as cron", "a line for crontab"),),
    "schedule emit": (
        Example(
            f"drlib schedule emit runbooks/rehearse.yaml {FILE} --as systemd --user drlib", "a timer and its service"
        ),
    ),
    "mirror": (
        Example(f"drlib mirror {FILE}", "until Ctrl-C; SIGKILL is safe"),
        Example(
            f"drlib mirror {FILE} --metrics 127.0.0.1:9464 --log-format json", "with Prometheus metrics and JSON lines"
        ),
        Example(f"drlib mirror {FILE} --spark spark://HOST:7077 --workers 4", "four workers as Spark tasks"),
    ),
    "copy": (
        Example(
            "drlib copy --from paris:9092 --to lyon:9092 --topics 'orders.*' --until-caught-up",
            "once, under the same names",
        ),
        Example(
            "drlib copy --consumer.config c.properties --producer.config p.properties --include orders",
            "as MirrorMaker 1",
        ),
    ),
    "remirror": (
        Example(f"drlib remirror {FILE} orders", "the plan"),
        Example(f"drlib remirror {FILE} orders --yes", "carried out"),
    ),
    "bootstrap": (
        Example(
            f"drlib bootstrap {FILE} --listen 10.0.0.5:9092 --state /var/lib/drlib/bootstrap.json", "until SIGTERM"
        ),
    ),
    "config": (Example(f"drlib config explain {FILE}", "every effective value, and where it comes from"),),
    "config explain": (
        Example(f"drlib config explain {FILE}", "every key of every enabled flow"),
        Example(f"drlib config explain {FILE} topics", "one key"),
    ),
    "config import": (
        Example("drlib config import mirror-source.json > mirror.properties", "connectors of Kafka Connect"),
    ),
    "service": (Example("drlib service prometheus > drlib-alerts.yml", "alert rules"),),
    "service systemd": (
        Example(f"drlib service systemd {FILE} | sudo tee /etc/systemd/system/drlib-mirror.service", "write the unit"),
    ),
    "service bootstrap": (
        Example(f"drlib service bootstrap {FILE} --listen 10.0.0.5:9092", "print the unit, to put into a file"),
    ),
    "service prometheus": (Example("drlib service prometheus > drlib-alerts.yml", "for rule_files of prometheus.yml"),),
    "service grafana": (Example("drlib service grafana > drlib-dashboard.json", "to import in Grafana"),),
    "size": (
        Example("drlib size --rate 5MB/s --rtt 200ms --bandwidth 1Gb/s --partitions 12 --outage 6h", "by formulas"),
        Example("drlib size --rate 5MB/s --rtt 20ms --bandwidth 1Gb/s --partitions 12 --measure .lab", "measured, too"),
    ),
    "status": (
        Example(f"drlib status {FILE} --watch", "redrawn until q"),
        Example(f"drlib status {FILE} --groups --json", "with consumer groups, for a program"),
    ),
    "translate": (
        Example(f"drlib translate {FILE} --flow 'paris->lyon' --group billing", "one group"),
        Example(
            f"drlib translate {FILE} --flow 'paris->lyon' --offsets offsets.json --as spark", "offsets kept elsewhere"
        ),
    ),
    "producer-ids": (
        Example(f"drlib producer-ids {FILE} --flow 'paris->lyon'", "how far they are apart"),
        Example(f"drlib producer-ids {FILE} --flow 'paris->lyon' --separate --yes lyon", "a million apart, once"),
    ),
    "inventory": (
        Example(f"drlib inventory {FILE}", "all that use the topics of the enabled flows"),
        Example(f"drlib inventory {FILE} --flow 'paris->lyon' --json", "of one flow, as JSON"),
        Example(f"drlib inventory {FILE} --left-behind RUN", "after a move: who is still on the cluster that was left"),
    ),
    "pointer": (Example(f"drlib pointer show {FILE}", "which cluster serves, and whether all copies agree"),),
    "pointer show": (
        Example(f"drlib pointer show {FILE} --application billing", "of one application"),
        Example(f"drlib pointer show {FILE} --history", "each move so far: when, by which run"),
    ),
    "pointer move": (Example(f"drlib pointer move {FILE} lyon", "by hand; asks for the name"),),
    "pointer publish": (Example(f"drlib pointer publish {FILE}", "where a copy is missing or old"),),
    "pointer watch": (Example(f"drlib pointer watch {FILE} --json", "one JSON document a change"),),
    "lab": (Example("drlib lab up", "LEFT and RIGHT, one broker each"),),
    "lab up": (
        Example("drlib lab up", "LEFT and RIGHT, one broker each, in .lab"),
        Example("drlib lab up --secured --brokers 3 --clusters paris,lyon", "TLS, logins and ACLs"),
    ),
    "lab status": (Example("drlib lab status", "of the lab in .lab"),),
    "lab down": (Example("drlib lab down", "stop it, and remove its data"),),
    "notebook": (
        Example("drlib notebook", "opens a browser"),
        Example("drlib notebook --no-browser --port 8888", "prints the address"),
        Example(
            "drlib notebook --copy", "where drlib was installed from a package: notebooks and runbooks come here first"
        ),
    ),
    "academy": (Example("drlib academy status", "which lessons are passed"),),
    "academy status": (Example("drlib academy status", "which lessons are passed"),),
    "academy reset": (Example("drlib academy reset L3", "begin one lesson again"),),
    "incident": (Example("drlib incident start --seed 7 --level 1", "then: drlib incident status"),),
    "incident list": (Example("drlib incident list", "names for act and diagnose"),),
    "incident start": (Example("drlib incident start --seed 7 --level 1", "an easy one"),),
    "incident status": (Example("drlib incident status", "what an operator can see"),),
    "incident act": (
        Example("drlib incident act restart-broker LEFT", "one move"),
        Example("drlib incident act restart-broker LEFT --seat Ana --estimate 30", "the same in a team"),
    ),
    "incident diagnose": (Example("drlib incident diagnose broker-killed", "a name of drlib incident list"),),
    "incident hint": (Example("drlib incident hint --take", "show the next one, for 5 points"),),
    "incident finish": (Example("drlib incident finish", "score and cause"),),
    "incident reveal": (Example("drlib incident reveal --replay 10", "the events, ten times as fast"),),
    "incident solve": (Example("drlib incident solve --seed 7", "by the reference player"),),
    "incident inject": (Example("drlib incident inject broker-killed", "one more fault"),),
    "incident master": (Example("drlib incident master", "what only the game master sees"),),
    "incident debriefing": (
        Example("drlib incident debriefing", "of the newest incident"),
        Example("drlib incident debriefing --md", "as Markdown; the page is debriefing.html in its folder"),
    ),
    "incident end": (Example("drlib incident end", "without a score"),),
}


def find(name: str) -> Command | None:
    """The command of that name."""
    return next((each for task in TASKS.values() for each in task if each.name == name), None)


def names() -> tuple[str, ...]:
    """In the order of `TASKS`."""
    return tuple(each.name for task in TASKS.values() for each in task)
