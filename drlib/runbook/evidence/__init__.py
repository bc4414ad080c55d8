"""Evidence of a year's drills for audits: one package made from verified runs alone.

`package` is what it says, `rules` what follows from the runs, `page` the same as Markdown, `folder` reads runs and writes it.
"""
