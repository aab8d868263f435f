"""Facts: reads files of the kubelet's configuration, wherever the agent can see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from walras_service.yaml_documents import YamlError, first_document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_Read = TypeVar("_Read")

INSTEAD = "set the agent's --reserved-cpus (agent.reservedCpus)"


class KubeletError(Exception):
    """The kubelet's configuration cannot be read; one line with the cause and the remedy."""


def first_found(roots: Sequence[Path], path: str, read: Callable[[Path], _Read]) -> _Read | None:
    """Return what is read under the first root that has a path; None if no root has it.

    Raises:
        KubeletError: It was not found, and some root may not be looked into.
    """
    refused = None
    for root in roots:
        try:
            return read(root / path.lstrip("/"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refused = error
    if refused is not None:
        raise unreadable(path, refused.strerror or str(refused))
    return None


def unreadable(path: str, reason: str) -> KubeletError:
    """Return the error for a file or folder that cannot be read."""
    return KubeletError(
        f"the kubelet's configuration {path} cannot be read ({reason}), so the CPUs that it "
        f"reserves are unknown; mount its folder (agent.kubelet.configFolder), or {INSTEAD}"
    )


def files_in(folder: Path, ending: str) -> list[tuple[str, bytes]]:
    """Return names and contents of the files in a folder and its folders, in their order.

    Raises:
        OSError: There is no such folder, or a file cannot be read.
    """
    if not folder.is_dir():
        raise FileNotFoundError
    return [(str(file), file.read_bytes()) for file in sorted(folder.rglob(f"*{ending}"))]


def fields_of(name: str, text: bytes, kind: str) -> Mapping[str, Any]:
    """Return the fields of a file's first document, which is all that is read of it.

    Args:
        name: Name of the file, for errors.
        text: Its content.
        kind: What it is, for errors.

    Raises:
        KubeletError: It is no YAML, or no object.
    """
    try:
        document = first_document(text)
    except YamlError as error:
        raise KubeletError(f"{name}: {error}, or {INSTEAD}") from None
    if document is not None and not isinstance(document, dict):
        raise KubeletError(f"{name} is not a {kind}; correct it, or {INSTEAD}")
    return document or {}
