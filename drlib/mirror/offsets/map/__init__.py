"""The offset map of each source partition, built from the journal and the mirror's log.

- `journal_log`: reads and appends a lane's journal; `fold_claims` keeps it small
- `count_records`: how many records of a claim were appended, counted in the log
- `offset_map`, `claim_records`, `segments`, `taken_part`: the map itself, pure
- `load_maps`, `flow_maps`, `follow_journal`: maps of a lane, of a flow, and kept up to date
"""
