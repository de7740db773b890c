"""What must not be missing where CI runs. Elsewhere the tests that need it are skipped.

TESTS_EXPECT, set by .ci/run, names it: `runsc`, `kube-apiserver`, `chromium`, with commas.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_without(what: str, why: str) -> NoReturn:
    """Skip with the reason; fail with it where `what` is expected."""
    if what in os.environ.get("TESTS_EXPECT", "").split(","):
        pytest.fail(f"The tests with {what} must run here: {why}")
    pytest.skip(why)
