"""URLs by which nodes read objects by themselves."""

from typing import Final

from ares.adapters.objects.blobs import blob_key
from ares.adapters.objects.bucket import Bucket
from ares.adapters.objects.projects import part_key
from ares.model.base import AttemptRef

# A node begins to read at once, and asks anew for what it did not get.
URL_S: Final = 300


class ObjectUrls:
    """The SignedReads port."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def part(self, tenant: str, sha256: str) -> str:
        return self._bucket.get_url(part_key(tenant, sha256), URL_S)

    def blob(self, ref: AttemptRef, sha256: str) -> str:
        return self._bucket.get_url(blob_key(ref, sha256), URL_S)
