"""What is shipped: complete, light to import, and working without its extras."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.tidy.source import ROOT, SRC, tracked

# Modules that must not be loaded just to show a table or a help text.
HEAVY = ("litestar", "uvicorn", "grpc", "apsw", "numpy", "prometheus_client", "opentelemetry", "google.protobuf")
# What only extras or the test tools bring, and the places where each may be imported: one for each extra.
OPTIONAL = {
    "google": ("ares.adapters.store.etcd", "ares.edge.rpc"),
    "lightkube": ("ares.adapters.kubernetes", "ares.app.kube.agent"),
}
TEST_TOOLS = (
    "opentelemetry", "pytest", "hypothesis", "psutil", "schemathesis", "grpc_tools", "redis", "requests", "sklearn",
)  # fmt: skip

LOADED = "import sys, {module}; print('\\n'.join(sys.modules))"
IMPORT_ALL = """
import importlib, pkgutil, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(blocked):
            raise ModuleNotFoundError(f"not in the base install: {{name}}", name=name)
blocked, homes = {blocked!r}, {homes!r}
sys.meta_path.insert(0, Missing())
import ares
failed = []
def visit(package):
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if info.name.startswith(homes) or info.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            failed.append(f"{{info.name}}: {{error}}")
        else:
            if info.ispkg:
                visit(module)
visit(ares)
print("\\n".join(failed))
"""


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["ares", "ares.job", "ares.app.main"])
def test_import_is_light(module: str) -> None:
    loaded = python(LOADED.format(module=module)).split()
    assert [m for m in loaded if m.startswith(HEAVY)] == []


def test_every_module_imports_without_extras() -> None:
    blocked = (*OPTIONAL, *TEST_TOOLS)
    assert python(IMPORT_ALL.format(blocked=blocked, homes=sum(OPTIONAL.values(), ()))) == ""


def test_wheel_holds_the_package(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
        (entry_points,) = (archive.read(n).decode() for n in shipped if n.endswith("entry_points.txt"))
    expected = {p.relative_to(SRC.parent).as_posix() for p in tracked() if p.is_relative_to(SRC)}
    assert expected <= shipped
    assert "ares/py.typed" in shipped
    assert not [n for n in shipped if n.startswith("tests")]
    assert "ares = ares.app.main:main" in entry_points
