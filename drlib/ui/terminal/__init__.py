"""Render results for a terminal with rich: flow status, drill plans and runs, readiness; and readiness as JSON."""
