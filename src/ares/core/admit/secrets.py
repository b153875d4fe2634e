"""Whether the secrets a job declares can be given to it."""

from collections import Counter
from collections.abc import Mapping

from ares.core.image.reference import RegistryImage, parse
from ares.core.refusal import Refusal
from ares.model.job import ENV_BYTES_MAX, JobSpec
from ares.model.secret import SECRETS_BYTES_MAX, SecretRecord


def declared(spec: JobSpec) -> Refusal | None:
    """What is wrong with how the job declares its secrets, whatever their values."""
    if not spec.secrets:
        return None
    for ref in spec.secrets:
        if sum(target is not None for target in (ref.env, ref.file, ref.registry)) != 1:
            message = f"secret {ref.name}: it is to be given either as env, as file or to a registry"
            return Refusal(code="secret-target", message=message, fix="name one of the three")
        if ref.registry is not None and (no := _no_account(spec, ref.name, ref.registry)) is not None:
            return no
    for what, names in (
        ("environment variable", [*spec.env, *(ref.env for ref in spec.secrets if ref.env is not None)]),
        ("file", [ref.file for ref in spec.secrets if ref.file is not None]),
        ("registry's account", [ref.registry for ref in spec.secrets if ref.registry is not None]),
    ):
        # In one pass: a job may have ten thousands of variables.
        twice = next((name for name, times in Counter(names).items() if times > 1), None)
        if twice is not None:
            message = f"the {what} {twice} is set twice, at least once from a secret"
            return Refusal(code="secret-twice", message=message, fix="give each its own name")
    return None


def _no_account(spec: JobSpec, name: str, registry: str) -> Refusal | None:
    """Why the secret is not shown to that registry: it goes to the one that the job's image is from, and no other."""
    image = None if spec.image is None else parse(spec.image.ref)
    host = image.host if isinstance(image, RegistryImage) else None
    if host == registry:
        return None
    said = "the job's image is from no registry" if host is None else f"the job's image is from {host}"
    fix = "leave the secret out" if host is None else f"write {name}:registry={host}"
    message = f"secret {name} is an account at {registry}, and {said}"
    return Refusal(code="secret-target", message=message, fix=fix)


def unavailable(tenant: str, spec: JobSpec, known: Mapping[str, SecretRecord]) -> Refusal | None:
    """What is wrong with the job's secrets as they are now; `known` are all secrets, by "tenant/name"."""
    if not spec.secrets:
        return None
    sizes = dict[str, int]()
    for ref in spec.secrets:
        record = known.get(f"{tenant}/{ref.name}")
        if record is None:
            message = f"the tenant has no secret {ref.name!r}"
            return Refusal(code="secret-unknown", message=message, fix=f"make it with `ares secret set {ref.name}`")
        sizes[ref.name] = record.size
    if (size := sum(sizes[ref.name] for ref in spec.secrets)) > SECRETS_BYTES_MAX:
        message = f"its secrets have {size:,} bytes together, at most {SECRETS_BYTES_MAX:,} are given to a job"
        return Refusal(code="secret-too-large", message=message, fix="declare fewer")
    if (size := env_size(spec, sizes)) > ENV_BYTES_MAX:
        message = f"with its secrets the environment takes {size:,} bytes, at most {ENV_BYTES_MAX:,} are allowed"
        return Refusal(code="secret-too-large", message=message, fix="give large secrets as files")
    return None


def env_size(spec: JobSpec, sizes: Mapping[str, int]) -> int:
    """The size of the environment with secrets of these sizes, by name, as the kernel counts."""
    plain = sum(len(f"{name}={value}".encode()) + 1 for name, value in spec.env.items())
    return plain + sum(len(ref.env) + sizes[ref.name] + 2 for ref in spec.secrets if ref.env is not None)
