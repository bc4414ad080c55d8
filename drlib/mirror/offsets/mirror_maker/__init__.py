"""Positions in flows that MirrorMaker 2 still mirrors: from its offset syncs, checkpoints and committed offsets.

Modules: `mirrored_by` decides whether it mirrors a flow, `sync_pairs` what its offset syncs say of a position, `maps` has both
behind the type that a journal's maps have, `read_flow` reads the topics, `source_tail` counts what they leave open,
`compared_maps` has the positions of a way back.
"""
