"""A certificate for 127.0.0.1 that signs itself, and keys, made by openssl for one test run."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    key: Path
    certificate: Path


def make(folder: Path) -> Certificate:
    """Write key.pem and certificate.pem into `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Certificate(folder / "key.pem", folder / "certificate.pem")
    _openssl(
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-days", "2", "-subj", "/CN=127.0.0.1", "-keyout", made.key, "-out", made.certificate,
        "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
        "-addext", "basicConstraints=critical,CA:TRUE",
        "-addext", "keyUsage=critical,digitalSignature,keyCertSign",
    )  # fmt: skip
    return made


def signing_key(path: Path) -> Path:
    """A key for service-account tokens."""
    _openssl("genrsa", "-out", path, "2048")
    return path


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
