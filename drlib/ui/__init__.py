"""What people look at: plotly figures, rich objects for notebooks, the offline HTML report, the terminal.

Everything here is made from a finished `Scorecard` and journal; nothing here measures or decides.
"""
