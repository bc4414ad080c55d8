"""The lab's applications: real producers and consumers, one process each, that follow the active-cluster pointer.

`producer` replays the flights (`flights`) over several librdkafka producers (`fleet`), `transactions` does so in transactions,
`consumer` is a group member; `in_doubt` resolves unanswered records after a move, `pacing` limits rates, `specs` are the
settings files, `process` the status file and signals.
Rules: an application (`python -m drlib.lab.apps.producer SPEC.json`) reads one spec file, writes a history of what it
experienced, ends on SIGTERM with exit code 0, and works with the cluster that the pointer names.
Not for: judging (`drlib.lab.checker`), mirroring, or moving the pointer.
"""
