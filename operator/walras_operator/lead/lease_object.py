"""Effects: read and write one Lease of the API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_operator.lead.lease import LeaseRecord
from walras_service.api import PATIENCE
from walras_service.kinds import LEASES

if TYPE_CHECKING:
    from walras_service.api import Api, Document


@dataclass(frozen=True, slots=True)
class LeaseObject:
    """A Lease, which need not exist.

    Attributes:
        api: Connection to the API server.
        namespace: Namespace of the Lease.
        name: Name of the Lease.
    """

    api: Api
    namespace: str
    name: str

    def read(self) -> LeaseRecord:
        """Return the content of the Lease; an empty record if it does not exist.

        Raises:
            ApiError: The API server cannot be asked, or refuses.
        """
        lease = self.api.find(LEASES.path(self.namespace, self.name), PATIENCE)
        return LeaseRecord() if lease is None else LeaseRecord.read(lease)

    def write(self, record: LeaseRecord) -> LeaseRecord:
        """Create the Lease, or replace the version that the record names; return it as it is now.

        Raises:
            ApiError: It is unchanged, as far as is known; a conflict if it has another version.
        """
        document: Document = {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": record.spec(),
        }
        if not record.version:
            answer = self.api.request("POST", LEASES.path(self.namespace), document)
        else:
            document["metadata"]["resourceVersion"] = record.version
            path = LEASES.path(self.namespace, self.name)
            answer = self.api.request("PUT", path, document)
        return LeaseRecord.read(answer)
