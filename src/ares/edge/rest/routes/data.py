"""Routes of datasets."""

from ares.api.projects import DatasetList, DatasetView, PartsBody, ProjectManifest, PublishedDataset, RemovedDataset
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.handlers import datasets
from ares.edge.rest.handlers.datasets import BYTES, RemovalQuery, VersionQuery
from ares.edge.rest.http.operation import Body, Operation
from ares.edge.rest.http.problems import QUOTA_CODES

DATASET_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "listDatasets", "GET", "/datasets", "datasets:read", "Datasets of the tenant, by name, with their versions.",
        datasets.list_datasets, {200: (JSON, DatasetList)}, NoQuery, tag="data",
    ),
    Operation(
        "getDataset", "GET", "/datasets/{dataset}", "datasets:read", "A dataset with its versions, the newest first.",
        datasets.get_dataset, {200: (JSON, DatasetView)}, NoQuery, tag="data",
    ),
    Operation(
        "putDataset", "PUT", "/datasets/{dataset}", "datasets:admin",
        "Publish files as the newest version of a dataset; the answer names the parts that are still to be sent.",
        datasets.put_dataset, {200: (JSON, PublishedDataset)}, NoQuery,
        Body(ProjectManifest, typed=False, batch=True),
        ("dataset-invalid", "datasets-full", "project-too-much", "project-unknown", "store-full", *QUOTA_CODES),
        tag="data",
    ),
    Operation(
        "deleteDataset", "DELETE", "/datasets/{dataset}", "datasets:admin", "Remove a dataset, or one version of it.",
        datasets.delete_dataset, {200: (JSON, RemovedDataset)}, RemovalQuery, problems=("dataset-in-use",), tag="data",
    ),
    Operation(
        "getDatasetManifest", "GET", "/datasets/{dataset}/manifest", "datasets:read",
        "The files of a version: their paths, sizes and parts, byte for byte as they were published.",
        datasets.get_manifest, {200: (JSON, ProjectManifest)}, VersionQuery, tag="data",
    ),
    Operation(
        "getDatasetParts", "POST", "/datasets/{dataset}/parts", "datasets:read",
        "Parts of files, as many of those asked for as fit: each as its length in four bytes and its bytes.",
        datasets.get_parts, {200: (BYTES, bytes)}, NoQuery, Body(PartsBody), ("egress-exceeded",), tag="data",
    ),
)  # fmt: skip
