"""Applications that follow the pointer: held, moved, and kept from writing to the former source.

Modules: `pointer` reads and writes the pointer of a drill, `move_pointer` and `fence_source` are the actions, `create_topics`
creates what producers write to, `deny_rules` decides which ACLs deny writing (pure), `deny_writes` makes and removes them.
"""
