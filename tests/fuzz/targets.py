"""The table of the decoders of what others wrote: each with valid samples and the errors that it may raise.

Rules: a row is named after the function that it calls; `tests/repository/test_fuzzing.py` compares the modules that decode
with those named here. A row lists only errors that the function declares; a decoder of another error tree is called through
whatever turns its errors into declared ones, as in the product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from drlib.config.settings import load_client_file
from drlib.decoding import Undecodable, address, integer, json_value, yaml_documents
from drlib.drill.witness import login, service
from drlib.errors import DrlibError, UsageError
from drlib.kafka import broker_states
from drlib.kafka.java_formats import jaas, jks, properties
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import CorruptBatch
from drlib.lab.apps.consumer import is_json
from drlib.mirror.engine.fencing import assignment
from drlib.mirror.journal.entries import JournalCorrupt
from drlib.mirror.mm2 import connect_offsets, consumer_offsets
from drlib.mirror.mm2.connect_offsets import ConnectRecordUnreadable
from drlib.mirror.mm2.records import Checkpoint, Heartbeat, MalformedRecord, OffsetSync
from drlib.mirror.offsets.map.segments import MapContradiction
from drlib.mirror.offsets.translation import external_files
from drlib.mirror.transactions import transaction_state
from fuzz import clients, processes, protocol, samples, stored
from fuzz.adapters import file, files, text, with_checksum, word
from fuzz.mutate import Case

SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Target:
    """`name` is `module:function`; `seconds` of processor time is what one case may take."""

    name: str
    decode: Callable[..., object]
    samples: Sequence[Case]
    errors: tuple[type[Exception], ...]
    seconds: float = SECONDS


_USAGE: Final = (UsageError,)
_BAD: Final = (Undecodable,)

TARGETS: Final[tuple[Target, ...]] = (
    # -- plain data
    Target("drlib.decoding:json_value", json_value, samples.as_json({"a": [1, -2.5e3, None, "x"]}, [[]]), _BAD),
    Target("drlib.decoding:yaml_documents", text(yaml_documents), ((samples.YAML_TEXT,),), _BAD),
    Target("drlib.decoding:integer", integer, ((b"123",), (b"-7",)), _BAD),
    Target("drlib.decoding:address", text(address), ((b"host:9092",), (b"[::1]:1",)), _BAD),
    Target(
        "drlib.kafka.broker_states:addresses",
        text(lambda servers: tuple(broker_states.addresses(servers))),
        ((b"host:9092,PLAINTEXT://[::1]:1",),),
        (),
    ),
    # -- Kafka's protocol
    Target("drlib.kafka.protocol.recode:records", recode.records, samples.BATCHES, (CorruptBatch,)),
    Target("drlib.kafka.protocol.batch:control_type", protocol.control_type, samples.CONTROL_BATCHES, (CorruptBatch,)),
    Target("drlib.kafka.protocol.validate:sound_batches", protocol.sound, samples.BATCHES, (CorruptBatch,)),
    Target(
        "drlib.kafka.protocol.merge_batches:merge",
        lambda batch: protocol.merge(with_checksum(batch)),
        samples.PLAIN_BATCHES,
        (CorruptBatch,),
    ),
    Target(
        "drlib.kafka.protocol.merge_batches:merge_single_records", protocol.merge_singles, samples.PLAIN_BATCHES, ()
    ),
    Target("drlib.kafka.protocol.fetch:decode", protocol.fetch_decode, protocol.FETCHED, (ValueError,)),
    Target("drlib.kafka.protocol.produce:decode", protocol.produce_decode, protocol.PRODUCED, (ValueError,)),
    Target("drlib.kafka.net.connection:Connection", protocol.kafka_response, protocol.RESPONSES, (DrlibError,)),
    Target("drlib.kafka.net.cluster_client:_metadata", protocol.metadata, protocol.METADATA, (Exception,)),
    Target("drlib.kafka.net.listener_probe:_mechanisms", protocol.sasl_mechanisms, protocol.SASL_HANDSHAKES, ()),
    Target("drlib.kafka.net.sasl:scram", protocol.scram, samples.SCRAM, protocol.SCRAM_ERRORS, 15.0),
    Target("drlib.kafka.security.oauth:_read", protocol.token, samples.TOKENS, (DrlibError, ValueError)),
    Target("drlib.mirror.engine.fencing.assignment:decode", assignment.decode, samples.ASSIGNMENTS, (DrlibError,)),
    # -- topics
    Target("drlib.mirror.journal.entries:decode", protocol.journal_entry, samples.JOURNAL, (JournalCorrupt,)),
    Target(
        "drlib.mirror.offsets.map.offset_map:PartitionMap",
        protocol.offset_map,
        protocol.JOURNALS,
        (JournalCorrupt, MapContradiction),
    ),
    Target("drlib.mirror.mm2.records:Heartbeat", Heartbeat.decode, protocol.HEARTBEATS, (MalformedRecord,)),
    Target("drlib.mirror.mm2.records:Checkpoint", Checkpoint.decode, protocol.CHECKPOINTS, (MalformedRecord,)),
    Target("drlib.mirror.offsets.translation.translate_groups:last_known", protocol.positions, protocol.POSITIONS, ()),
    Target("drlib.mirror.sync.rules.gone_positions:checkpointed", protocol.kept_positions, protocol.POSITIONS, ()),
    Target("drlib.mirror.share_groups.known:decoded", protocol.share_header, protocol.SHARE_HEADERS, ()),
    Target(
        "drlib.kafka.share_groups.messages:state_record", protocol.share_state, protocol.SHARE_STATES, (ValueError,)
    ),
    Target(
        "drlib.kafka.share_groups.messages:described", protocol.share_offsets, protocol.SHARE_OFFSETS, (ValueError,)
    ),
    Target(
        "drlib.kafka.share_groups.members:share_members",
        protocol.share_members,
        protocol.SHARE_MEMBERS,
        (ValueError,),
    ),
    Target(
        "drlib.kafka.share_groups.members:streams_members",
        protocol.streams_members,
        protocol.STREAMS_MEMBERS,
        (ValueError,),
    ),
    Target("drlib.mirror.mm2.records:OffsetSync", OffsetSync.decode, protocol.OFFSET_SYNCS, (MalformedRecord,)),
    Target(
        "drlib.mirror.mm2.consumer_offsets:decode",
        consumer_offsets.decode,
        samples.CONSUMER_OFFSETS,
        (MalformedRecord,),
    ),
    Target(
        "drlib.mirror.transactions.transaction_state:decode",
        transaction_state.decode,
        samples.TRANSACTION_STATE,
        (MalformedRecord,),
    ),
    Target(
        "drlib.mirror.mm2.connect_offsets:decode",
        connect_offsets.decode,
        samples.CONNECT_OFFSETS,
        (ConnectRecordUnreadable,),
    ),
    Target("drlib.mirror.mm2.connect_offsets:copied", protocol.copied, samples.CONNECT_OFFSETS, ()),
    Target(
        "drlib.mirror.mm2.connect_offsets:source_connector_enabled",
        protocol.connector_enabled,
        samples.CONNECT_CONFIG,
        (ConnectRecordUnreadable,),
    ),
    Target("drlib.client.pointer:decode", protocol.pointer, samples.POINTERS, _USAGE),
    Target("drlib.client.pointer_topic:apply_record", protocol.pointer_record, protocol.POINTER_RECORDS, ()),
    Target("drlib.client.history.entries:decode", protocol.pointer_entry, protocol.POINTER_HISTORY, _USAGE),
    Target("drlib.client.history.entries:apply_entry", protocol.pointer_history, protocol.POINTER_HISTORY, ()),
    Target("drlib.drill.witness.service:decode", service.decode, samples.as_json(samples.SEEN), _BAD),
    Target("drlib.drill.witness.service:decode_proven", service.decode_proven, samples.as_json(samples.PROVEN), _BAD),
    Target("drlib.drill.witness.login:decode", text(login.decode), samples.WITNESS_LOGINS, _BAD),
    Target("drlib.drill.plan.lease_record:decode", protocol.lease, samples.LEASES, _USAGE),
    Target("drlib.mirror.preflight.failed_over:decode", protocol.flow_record, samples.LEASES, ()),
    Target(
        "drlib.mirror.offsets.unreplicated.ledger:decode",
        protocol.progress,
        samples.LEDGER,
        _USAGE,
    ),
    Target("drlib.mirror.offsets.unreplicated.settle:read_ledger", protocol.closing, samples.LEDGER, _USAGE),
    # -- files of clients and of other tools
    Target("drlib.kafka.java_formats.properties:parse", clients.properties_text, samples.PROPERTIES, _USAGE),
    Target("drlib.kafka.java_formats.properties:read", file(properties.read), samples.PROPERTIES, _USAGE),
    Target(
        "drlib.kafka.java_formats.references:resolve",
        text(clients.resolve),
        ((b"${env:HOME} a",), (b"${file:/x:k}",)),
        _USAGE,
    ),
    Target("drlib.kafka.java_formats.jaas:parse", word(lambda value: jaas.parse(value, "x")), samples.JAAS, _USAGE),
    Target("drlib.kafka.java_formats.jks:read", clients.jks_read, clients.JKS, (jks.NotJks, jks.WrongPassword)),
    Target("drlib.kafka.java_formats.key_stores:trusted", clients.trusted, clients.stores(), (DrlibError,)),
    Target("drlib.kafka.java_formats.key_stores:key_store", clients.own_store, clients.stores(), (DrlibError,)),
    Target("drlib.kafka.security.tls:context", clients.tls_context, clients.pem(), _USAGE),
    Target("drlib.kafka.security.java_keys:read", clients.security, samples.PROPERTIES, (DrlibError,)),
    Target("drlib.config.settings:from_file", clients.from_properties, samples.PROPERTIES, _USAGE, 60.0),
    Target("drlib.config.settings:load_client_file", file(load_client_file), samples.PROPERTIES, _USAGE),
    Target("drlib.config.shown:shown", clients.shown_values, samples.PROPERTIES, _USAGE),
    Target("drlib.config.imports:import_files", clients.imported, samples.IMPORTED, _USAGE, 60.0),
    Target("drlib.config.patterns.selection:validate", clients.pattern, samples.PATTERNS, _USAGE, 10.0),
    Target("drlib.config.patterns.selection:matches", clients.matches, samples.NAMES, _USAGE, 10.0),
    Target("drlib.mirror.offsets.translation.external_formats:parse", clients.offsets, samples.OFFSETS_FILES, _USAGE),
    Target(
        "drlib.mirror.offsets.translation.external_files:read_offsets",
        files(external_files.read_offsets, "offsets/0", "offsets/1", "commits/0"),
        tuple((*case, b"v1\n{}") for case in samples.CHECKPOINTS),
        _USAGE,
    ),
    # -- runbooks and notebooks
    Target("drlib.runbook.file.model:load", stored.runbook, stored.RUNBOOKS, _USAGE, 60.0),
    Target("drlib.runbook.file.parameters:declared", file(stored.declared), stored.NOTEBOOKS, _USAGE),
    Target(
        "drlib.ui.report.notebook_cells:read_cells", file(stored.cells), stored.executed(), stored.CELL_ERRORS, 10.0
    ),
    # -- what drlib wrote, which others can have changed
    Target(
        "drlib.runbook.first_runbooks.folder:read_manifest",
        files(stored.first_manifest, ".drlib-init.json"),
        stored.MANIFESTS,
        _USAGE,
    ),
    Target("drlib.runs.scorecard:Scorecard", stored.scorecard, stored.SCORECARDS, _BAD),
    Target("drlib.runs.journal:parse", stored.run_journal, stored.RUN_JOURNALS, (DrlibError,)),
    Target("drlib.drill.run.planning:parse", stored.plan, stored.PLANS, (ValueError,)),
    Target("drlib.drill.run.stored_run:read", stored.stored_run, stored.RUNS, (), 10.0),
    Target("drlib.runbook.evidence.folder:collect", stored.evidence, stored.RUNS, (), 10.0),
    Target("drlib.drill.run.approvals:read", files(stored.approvals, "approved"), stored.APPROVALS, ()),
    Target("drlib.drill.run.request:find", files(stored.request, "run.json"), stored.REQUESTS, _USAGE),
    Target("drlib.drill.step.known_silence:KnownSilence", stored.known_silence, stored.SILENCES, ()),
    Target("drlib.drill.step.step_output:read_rows", stored.step_rows, stored.ROWS, _USAGE),
    Target("drlib.drill.step.step_output:read_part", stored.step_part, stored.PARTS, _USAGE),
    Target("drlib.drill.step.rto_clock:at", stored.moment, ((b"1700000000000",),), _USAGE),
    Target("drlib.drill.testbed.sampler:read", stored.run_samples, stored.SAMPLED, _USAGE),
    Target(
        "drlib.drill.actions.failover.transactions:read_kept",
        stored.kept_transactions,
        stored.KEPT_TRANSACTIONS,
        _USAGE,
    ),
    Target("drlib.drill.inventory.kept:read_kept", stored.kept_inventory, stored.KEPT_INVENTORIES, _USAGE),
    Target("drlib.drill.actions.groups.decided:read", stored.decided, stored.MOVES, _USAGE),
    Target("drlib.drill.actions.applications.create_topics:quota_of", stored.quota, stored.QUOTAS, _USAGE),
    Target("drlib.drill.actions.hooks.actions:_Memory", stored.hook_memory, stored.HOOKS, _USAGE),
    Target("drlib.runs.abort:Abort", stored.abort_file, ((b"operator\n",),), ()),
    Target("drlib.client.bootstrap.state_file:read", stored.bootstrap_state, stored.BOOTSTRAP_STATES, _USAGE),
    Target("drlib.training.academy.progress:read", stored.progress, stored.PROGRESS, _USAGE),
    Target("drlib.training.incidents.lab.skipped:SkippedRecords", file(stored.skipped), samples.HISTORIES, ()),
    Target("drlib.training.incidents.record:IncidentRecord", stored.incident, stored.INCIDENTS, (DrlibError,)),
    Target("drlib.analysis.sessions.continuous_audit:_PLAN", stored.audit_plan, stored.AUDIT_PLANS, _USAGE),
    Target("drlib.analysis.continuous.stream:_MOMENT", stored.audit_moment, ((b"5",),), _USAGE),
    Target("drlib.analysis.spark.topics:_RANGES", stored.ranges, stored.RANGES, _USAGE),
    Target("drlib.drill.scenarios.failover.proof:_REPORT", stored.check_report, stored.REPORTS, _USAGE),
    # -- processes of drlib, of this machine and of others
    Target("drlib.mirror.status.worker_status:decode", processes.status, samples.STATUSES, _BAD),
    Target("drlib.mirror.monitor.observer:fetch_status", clients.status_address, clients.ADDRESSES, ()),
    Target("drlib.mirror.spark.child_worker:decode_message", processes.worker_message, processes.MESSAGES, _BAD),
    Target("drlib.mirror.spark.control_channel:_REGISTRATION", processes.registration, processes.REGISTRATIONS, _BAD),
    Target("drlib.mirror.spark.control_channel:_CHALLENGE", processes.challenge, processes.CHALLENGES, _BAD),
    Target("drlib.mirror.spark.control_channel:_WELCOME", processes.welcome, processes.WELCOMES, _BAD),
    Target(
        "drlib.mirror.spark.rules:cause_of",
        text(clients.cause_of),
        ((b"Caused by: java.io.IOException: x\n\tat y",),),
        (),
    ),
    Target("drlib.ui.jupyterlab:_token", file(processes.jupyter_token), processes.JUPYTER, ()),
    Target("drlib.ui.console.presence:_Server", processes.jupyter_server, processes.JUPYTER, _BAD),
    Target("drlib.lab.apps.consumer:is_json", is_json, samples.as_json({"carrier": "AA", "flight": 1}), ()),
    Target("drlib.lab.checker.history:decode", processes.history_lines, samples.HISTORIES, ()),
    Target("drlib.lab.lab:_read_state", processes.lab_state, processes.LABS, _USAGE),
    Target("drlib.lab.clients.on_lab:_CHOSEN", processes.lab_clients, processes.CLIENTS, _USAGE),
    Target("drlib.lab.clients.on_lab:_starts", file(processes.client_starts), ((b"1795675594\n1795675654\n",),), ()),
    Target("drlib.lab.processes:_RECORDS", processes.process_records, processes.PROCESSES, _USAGE),
    Target("drlib.lab.clocks:behind_ms", files(processes.lab_clock, ".LEFT.clock"), ((b"5000\n",),), _USAGE),
    Target("drlib.lab.link.remote:LinkProxy", processes.link_state, processes.LINKS, (DrlibError,)),
    Target("drlib.lab.link.proxy:_Server", processes.link_question, processes.QUESTIONS, ()),
    Target("drlib.lab.apps.specs:load", file(processes.app_spec), processes.SPECS, _USAGE),
    Target("drlib.lab.apps.process:read_status", file(processes.app_status), processes.APPS, _USAGE),
    Target("drlib.lab.jars:_known_digests", processes.jar_digests, processes.DIGESTS, ()),
    Target("drlib.outgoing.http_request:parse", word(clients.address), clients.URLS, (ValueError,)),
)
