"""Report how a worker is: to `drlib status`, to Prometheus, to systemd.

- `event_log`: events that open and resolve; `event_kinds`: the meaning and remedy of each.
- `worker_status`: the status value, its JSON and its file; `endpoint`: the same over HTTP; `metrics`: Prometheus metrics.
- `forecast`: time to catch up and what retention leaves, from samples, pure; `systemd`: readiness and watchdog.
"""
