"""Duplicates of a mirror topic and their cause.

`find` searches records, `rewinds` finds groups that read records again, `result` has the values and the verdict.
"""
