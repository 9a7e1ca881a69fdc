"""Private diagnostics never show a value unless asked to write them."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import stat
from pathlib import Path

import numpy as np
import pytest

from gaussveil.accounting import Account, CertificateDraft, Charge, PrivateDiagnostics, transaction
from gaussveil.errors import ParameterError, PrivacyError

SECRET = 31.4159


@pytest.fixture
def diagnostics() -> PrivateDiagnostics:
    return PrivateDiagnostics(error=SECRET, curve=np.array([SECRET, 2.0]))


def test_words_hold_names_only(diagnostics: PrivateDiagnostics) -> None:
    for text in (repr(diagnostics), str(diagnostics), f"{diagnostics}", f"{diagnostics:>90}", format(diagnostics)):
        assert "31.4" not in text
        assert "error" in text
        assert "do not share" in text


def test_refuses_to_travel(diagnostics: PrivateDiagnostics) -> None:
    for travel in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError):
            travel(diagnostics)
    with pytest.raises(TypeError):
        json.dumps(diagnostics)
    with pytest.raises(TypeError):
        vars(diagnostics)


def test_writes_a_marked_file_for_the_owner(diagnostics: PrivateDiagnostics, tmp_path: Path) -> None:
    path = tmp_path / "private.json"
    path.write_text("old")
    path.chmod(0o644)
    diagnostics.merged(inner=PrivateDiagnostics(bias=0.5), ratio=np.inf).write(path)
    record = json.loads(path.read_text())
    assert record["warning"] == "contains private data, do not share"
    assert record["version"] == 1
    assert record["values"] == {"error": SECRET, "curve": [SECRET, 2.0], "inner": {"bias": 0.5}, "ratio": "inf"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert diagnostics["error"] == SECRET
    with pytest.raises(ParameterError, match="no diagnostic named"):
        diagnostics["other"]


def test_cannot_be_released(charge: Charge, draft: CertificateDraft, diagnostics: PrivateDiagnostics) -> None:
    with pytest.raises(PrivacyError), transaction(None, charge, draft) as debit:
        debit.draw(lambda: diagnostics)


def test_logs_hold_no_data(
    account: Account, charge: Charge, draft: CertificateDraft, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="gaussveil"):
        with transaction(account, charge, draft) as debit:
            debit.draw(lambda: SECRET)
        with pytest.raises(ValueError, match="broken"), transaction(account, charge, draft) as debit:
            debit.draw(lambda: (_ for _ in ()).throw(ValueError(f"broken {SECRET}")))
    assert "debited" in caplog.text
    assert "stays debited" in caplog.text
    assert "31.4" not in caplog.text
