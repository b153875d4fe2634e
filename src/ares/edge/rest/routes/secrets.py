"""Routes about secrets."""

from ares.api.secrets import KeyRotation, SecretView
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.handlers import secrets
from ares.edge.rest.handlers.secrets import SecretBody, SecretList
from ares.edge.rest.http.operation import Body, Operation

SECRET_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "listSecrets", "GET", "/secrets", "secrets:read", "Secrets of the tenant, by name. Never their values.",
        secrets.list_secrets, {200: (JSON, SecretList)}, NoQuery, tag="secrets",
    ),
    Operation(
        "putSecret", "PUT", "/secrets/{secret}", "secrets:admin", "Make a secret, or give one a new value.",
        secrets.put_secret, {200: (JSON, SecretView)}, NoQuery, Body(SecretBody),
        ("secret-conflict", "secret-invalid", "secrets-full", "secrets-key"), tag="secrets",
    ),
    Operation(
        "deleteSecret", "DELETE", "/secrets/{secret}", "secrets:admin",
        "Delete a secret. Attempts that need it do not start any more.", secrets.delete_secret, {204: ("", None)},
        NoQuery, tag="secrets",
    ),
    Operation(
        "rotateSecretsKey", "POST", "/secret-keys", "store:admin",
        "Make a new key and seal every tenant's secrets with it. Goes on where an earlier one was interrupted.",
        secrets.rotate_key, {200: (JSON, KeyRotation)}, NoQuery, problems=("secrets-key",), tag="secrets",
    ),
)  # fmt: skip
