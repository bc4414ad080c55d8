"""The live view of an incident beside its notebook: symptoms and moves on a time axis, the clock, and a form for the next move.

- `state`: what the public journal says at one moment; `picture`: the same as text, HTML and a figure.
- `form`: which moves and arguments are offered, and the cell that one of them becomes; `widget`, `view`: live in a notebook.
"""
