"""`python -m drlib.cli`, for where no script is installed."""

from drlib.cli import main

main()
