"""Positions of share groups (KIP-932): followed on the source, kept on the target, and translated.

- `known`: what is known of them, from a cluster or from the checkpoints on the target.
- `follow`: a worker's task that writes the checkpoints.
- `translate`: start offsets and acknowledged records by the offset map.
"""
