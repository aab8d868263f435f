"""Write an SBOM (SPDX 2.3), which lists the Python packages of an image or of the wheel.

It does not list what a base image brings.
"""

from __future__ import annotations

import hashlib
import re
import sys
import zipfile
from datetime import UTC, datetime
from email.parser import HeaderParser
from typing import TYPE_CHECKING

from spdx_tools.spdx.model.actor import Actor, ActorType
from spdx_tools.spdx.model.checksum import Checksum, ChecksumAlgorithm
from spdx_tools.spdx.model.document import CreationInfo, Document
from spdx_tools.spdx.model.package import Package
from spdx_tools.spdx.model.relationship import Relationship, RelationshipType
from spdx_tools.spdx.model.spdx_no_assertion import SpdxNoAssertion
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
from spdx_tools.spdx.writer.write_anything import write_file

if TYPE_CHECKING:
    from pathlib import Path


def write_sbom(
    folder: Path, name: str, version: str, architecture: str, wheels: list[Path]
) -> None:
    """Write which Python packages something consists of, by their wheels, to a file of a folder."""
    creation = CreationInfo(
        spdx_version="SPDX-2.3",
        spdx_id="SPDXRef-DOCUMENT",
        name=f"{name}-{version}",
        document_namespace=f"https://walras.dev/spdx/{name}-{version}-{architecture}",
        creators=[Actor(ActorType.TOOL, "walras-release")],
        created=datetime.now(UTC).replace(microsecond=0, tzinfo=None),
    )
    packages = [package_of(wheel) for wheel in wheels]
    relationships = [
        Relationship("SPDXRef-DOCUMENT", RelationshipType.DESCRIBES, each.spdx_id)
        for each in packages
    ]
    document = Document(creation, packages=packages, relationships=relationships)
    problems = validate_full_spdx_document(document)
    if problems:
        sys.exit(f"the SBOM of {name} is invalid: {problems[0].validation_message}")
    write_file(document, str(folder / f"{name}-{version}.spdx.json"), validate=False)


def package_of(wheel: Path) -> Package:
    """Describe a wheel by its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        fields = HeaderParser().parsestr(archive.read(path).decode())
    name, version = str(fields["Name"]), str(fields["Version"])
    license_ = fields["License-Expression"] or fields["License"]
    return Package(
        spdx_id="SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name),
        name=name,
        version=version,
        file_name=wheel.name,
        download_location=SpdxNoAssertion()
        if name == "walras"  # which is on no index
        else f"https://pypi.org/project/{name}/{version}/",
        checksums=[
            Checksum(ChecksumAlgorithm.SHA256, hashlib.sha256(wheel.read_bytes()).hexdigest())
        ],
        license_concluded=SpdxNoAssertion(),
        license_comment=None if license_ is None else str(license_).strip().partition("\n")[0],
        files_analyzed=False,
    )
