"""The mirror's file, `connect-mirror-maker.properties`, as typed settings.

- `settings`: loads a file, or that of one client; `flow_settings`: the keys of one flow
- `keys`: the effect of every key that Kafka has; `notices`: checks a file's keys; `values`: reads one key
- `shown`: which values may be shown or sent; `explain`: every value in effect with its line (`drlib config explain`)
- `replication_policy`: topic names across clusters; `patterns`: Java's regular expressions
- `quantities`: rates, sizes and times as people write them
"""
