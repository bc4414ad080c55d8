"""Drills and plans as data, and what follows from a journal; pure.

Modules: `plan` is a drill, its plan and the hash that binds them; `progress` decides the next thing to do from the journal
alone; `states` is the table of a flow's states; `lease_record` is what a lease says of its flow.
"""
