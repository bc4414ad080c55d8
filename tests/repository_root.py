"""Where the repository and its tests are, for tests that read its files or start programs in it."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
