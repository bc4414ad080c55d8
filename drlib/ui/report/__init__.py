"""The report of a run: one HTML file that loads nothing from any network.

`report` fills the template, `timeline` turns the journal into rows, `notebook_cells` makes the executed notebook harmless,
`digests` hashes the files beside it; `pdf` prints the page, `markdown` writes the same as text.
"""
