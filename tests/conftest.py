"""Fixtures live in named plugins beside this file."""

pytest_plugins = ["fix_lab", "fix_spark", "fix_engine", "fix_flows", "fix_guarded"]
