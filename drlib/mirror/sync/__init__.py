"""Keep the target equal to the source in everything besides records.

- `create_topics`: create and grow mirror topics, detect deleted source topics.
- `internal_topics`: create the flow's own topics (journal, checkpoints, heartbeats, offset syncs).
- `configs`, `acls`, `group_offsets`: copy topic configurations, ACLs and committed offsets; `group_offsets_back`: commit on the
  source what groups reach on mirrors; `tasks` repeats them on the worker that owns lane 0.
- `heartbeats`: write those of pairs of clusters that are not enabled.
- `source_groups`: follow the committed offsets of the source, and write checkpoints.
- `rules`: the decisions, pure.
"""
