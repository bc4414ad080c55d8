"""Duplicates of a mirror topic and their cause.

`find` searches records, `known_copies` gives it the mirror's own offset map, `rewinds` finds groups that read records again,
`result` has the values and the verdict.
"""
