#!/usr/bin/env python3
"""Writes the public proto files from the records of the API, and the descriptors that the server reads.

A field keeps its number for ever: numbers that are in the files stay, new fields get the next ones, and those of fields
that are gone are reserved. `--check` changes nothing and says whether something would change.
"""

import argparse
import re
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from ares.api.jobs import StreamedEvent, StreamedLog
from ares.edge.rest.http.operation import Operation, Socket
from ares.edge.rest.routes.routes import OPERATIONS, SOCKETS
from ares.edge.rpc.methods import PACKAGE, SERVICES, method_of

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
API = "ares/v1/api.proto"
DESCRIPTORS = ROOT / "src/ares/edge/rpc/descriptors.binpb"
# Files that the server speaks: its own, and those that every gRPC server has.
FILES = (
    API, "grpc/health/v1/health.proto", "grpc/reflection/v1/reflection.proto",
    "grpc/reflection/v1alpha/reflection.proto", "google/rpc/status.proto",
)  # fmt: skip
STREAMED: dict[str, type[msgspec.Struct]] = {"streamEvents": StreamedEvent, "streamJobLogs": StreamedLog}

HEAD = f"""\
// The public gRPC service of Ares. Written by scripts/proto.py from the records of the API: every message is what the
// HTTP API takes and gives as JSON, under the same names. Fields are added, and never renumbered.
syntax = "proto3";

package {PACKAGE};

import "google/protobuf/struct.proto";

option go_package = "ares/v1;aresv1";
"""
VALUE, LIST, STRUCT = ("google.protobuf.Value", "google.protobuf.ListValue", "google.protobuf.Struct")
SCALARS = {
    inspect.StrType: "string", inspect.IntType: "int64", inspect.FloatType: "double", inspect.BoolType: "bool",
    inspect.BytesType: "bytes",
}  # fmt: skip
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"(\w+) = (\d+)( \[.*\])?;")
_RESERVED = re.compile(r'reserved (\d+); reserved "(\w+)";')


class Numbers:
    """Numbers of fields, as the file has them by now."""

    def __init__(self, text: str) -> None:
        self._of = {name: {f[1]: int(f[2]) for f in _FIELD.finditer(body)} for name, body in _MESSAGE.findall(text)}
        self._gone = {name: {n: int(k) for k, n in _RESERVED.findall(body)} for name, body in _MESSAGE.findall(text)}

    def of(self, message: str, fields: list[str]) -> tuple[dict[str, int], dict[str, int]]:
        """The number of each field, and those that are used up."""
        known, gone = self._of.get(message, {}), dict(self._gone.get(message, {}))
        gone |= {name: number for name, number in known.items() if name not in fields}
        following = max([0, *known.values(), *gone.values()])
        numbers: dict[str, int] = {}
        for name in fields:
            if (number := known.get(name)) is None:
                # A field that comes back has its old number: it means the same.
                number = gone.pop(name, None)
            if number is None:
                following += 1
                number = following
            numbers[name] = number
        return numbers, gone


class ProtoFile:
    """The file, message by message."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._messages: dict[str, str] = {}
        self._sent: set[type] = set()

    def text(self) -> str:
        services = [self._service(name, operations) for name, operations in SERVICES.items()]
        return "\n".join((HEAD, *services, *(self._messages[name] for name in sorted(self._messages))))

    def _service(self, name: str, operations: tuple[str, ...]) -> str:
        rpcs: list[str] = []
        for operation in (find(known) for known in operations):
            method = method_of(operation.id)
            self._request(operation)
            answer = self._answer(operation)
            stream = "stream " if isinstance(operation, Socket) else ""
            rpcs.append(f"  // {operation.summary}\n  rpc {method}({method}Request) returns ({stream}{answer});")
        return f"service {name} {{\n" + "\n".join(rpcs) + "\n}\n"

    def _request(self, operation: Operation | Socket) -> None:
        fields = [(name, "string", name) for name in re.findall(r"\{(\w+)\}", operation.path)]
        for struct in filter(None, (operation.query, body_of(operation))):
            fields += self._fields(struct, sent=True)
        method = method_of(operation.id)
        self._write(f"{method}Request", operation.summary, fields)

    def _answer(self, operation: Operation | Socket) -> str:
        if isinstance(operation, Socket):
            return self._struct(STREAMED[operation.id], sent=False)
        _, answer = next(iter(operation.answers.values()))
        return self._struct(answer, sent=False)

    def _struct(self, struct: type[msgspec.Struct], *, sent: bool) -> str:
        name = struct.__name__
        if name not in self._messages or (sent and struct not in self._sent):
            self._messages[name] = ""
            if sent:
                self._sent.add(struct)
            sent = struct in self._sent
            self._write(name, (struct.__doc__ or "").strip(), self._fields(struct, sent=sent))
        return name

    def _fields(self, struct: type[msgspec.Struct], *, sent: bool) -> list[tuple[str, str, str]]:
        about = inspect.type_info(struct)
        assert isinstance(about, inspect.StructType)
        return [(f.name.rstrip("_"), self._type(f.type, sent=sent), f.encode_name) for f in about.fields]

    def _type(self, given: Any, *, sent: bool) -> str:
        kinds = [given]
        nullable = False
        if isinstance(given, inspect.UnionType):
            kinds = [kind for kind in given.types if not isinstance(kind, inspect.NoneType)]
            nullable = len(kinds) < len(given.types) or given.includes_none
        plain = {self._plain(kind, sent=sent) for kind in kinds}
        if len(plain) > 1:
            return VALUE
        found = plain.pop()
        return f"optional {found}" if found in SCALARS.values() and (sent or nullable) else found

    def _plain(self, given: Any, *, sent: bool) -> str:
        if isinstance(given, inspect.LiteralType):
            return "string" if isinstance(given.values[0], str) else "int64"
        if isinstance(given, inspect.StructType):
            return self._struct(given.cls, sent=sent)
        if isinstance(given, inspect.VarTupleType | inspect.ListType):
            return f"repeated {self._inner(given.item_type, sent=sent)}"
        if isinstance(given, inspect.TupleType):
            return LIST
        if isinstance(given, inspect.DictType):
            inner = self._inner(given.value_type, sent=sent)
            return STRUCT if inner == VALUE else f"map<string, {inner}>"
        return SCALARS.get(type(given), VALUE)

    def _inner(self, given: Any, *, sent: bool) -> str:
        """Of a list or a table: what has no name of its own in a proto file is a plain value."""
        found = self._plain(given, sent=sent) if not isinstance(given, inspect.UnionType) else VALUE
        return LIST if found.startswith("repeated") else STRUCT if found.startswith("map<") else found

    def _write(self, message: str, about: str, fields: list[tuple[str, str, str]]) -> None:
        names = [name for name, _, _ in fields]
        assert len(set(names)) == len(names), f"{message}: a name stands for two fields"
        numbers, gone = self._numbers.of(message, names)
        lines = [f"// {' '.join(line.split())}" for line in about.splitlines() if line.strip()]
        lines.append(f"message {message} {{")
        for name, kind, said in sorted(fields, key=lambda field: numbers[field[0]]):
            json = "" if camel(name) == said else f' [json_name = "{said}"]'
            lines.append(f"  {kind} {name} = {numbers[name]}{json};")
        lines += [f'  reserved {number}; reserved "{name}";' for name, number in sorted(gone.items())]
        self._messages[message] = "\n".join((*lines, "}", ""))


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def find(name: str) -> Operation | Socket:
    return next(known for known in (*OPERATIONS, *SOCKETS) if known.id == name)


def body_of(operation: Operation | Socket) -> type[msgspec.Struct] | None:
    return operation.body.type if isinstance(operation, Operation) and operation.body is not None else None


def written(existing: str) -> str:
    """The proto file that the records of now make of the one there is."""
    return ProtoFile(Numbers(existing)).text()


def descriptors(text: str) -> bytes:
    """The compiled files, in the order in which they need each other."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as place:
        (Path(place) / API).parent.mkdir(parents=True)
        (Path(place) / API).write_text(text)
        out = Path(place) / "out"
        given = (f"-I{place}", f"-I{PROTO}", f"-I{files('grpc_tools') / '_proto'}")
        asked = (f"--descriptor_set_out={out}", "--include_imports", *FILES)
        if protoc.main(("protoc", *given, *asked)):
            raise SystemExit("protoc refused the files, see above")
        return out.read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    path = PROTO / API
    text = written(path.read_text() if path.exists() else "")
    if check:
        same = path.read_text() == text and DESCRIPTORS.read_bytes() == descriptors(text)
        print("the proto files are as the records say" if same else "run scripts/proto.py: the records have changed")
        return 0 if same else 1
    path.write_text(text)
    DESCRIPTORS.write_bytes(descriptors(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
