"""A CI in which the tests with a real cluster, sandbox or browser do not run is not green."""

from __future__ import annotations

import pytest
from expected import skip_without


def test_what_is_missing_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTS_EXPECT", "kube-apiserver")
    with pytest.raises(pytest.skip.Exception, match="not installed"):
        skip_without("runsc", "it is not installed")


def test_what_is_expected_and_missing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTS_EXPECT", "runsc,kube-apiserver")
    with pytest.raises(pytest.fail.Exception, match="must run here: it is not installed"):
        skip_without("runsc", "it is not installed")
