"""Policies in CEL, the Common Expression Language, by cel-expr-python. The only file that knows that package."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from ares.core.policy.facts import NAMES
from ares.core.policy.reading import first_of, names_in, patterns_in, refused
from ares.model.policy import Mistake, Type
from ares.ports.policy import CompiledRule, Failed, Value

_TYPE_NAMES: dict[str, Type] = {"BOOL": "bool", "INT": "int", "DOUBLE": "double", "STRING": "string"}
# The compiler gets text from tenants, and fails in more ways than it documents.
_Broken = (RuntimeError, ValueError, TypeError)


class CelRule:
    """One compiled rule. `names` are the variables it reads."""

    __slots__ = ("_error_type", "_eval", "expression", "names")

    def __init__(self, expression: str, program: Any, error_type: Any, names: tuple[str, ...]) -> None:
        self.expression = expression
        self.names = names
        self._eval = program.eval
        self._error_type = error_type

    def run(self, values: object) -> Value | Failed:
        try:
            found = self._eval(values)
            value: Any = found.value()
        except _Broken as error:
            return Failed(message=_plain(str(error)))
        if value is True or value is False:
            return value
        if found.type() == self._error_type or not isinstance(value, int | float | str):
            return Failed(message=_plain(str(value)))
        return value


class CelRules:
    """The CEL compiler. The package is loaded with the first rule: most servers have none."""

    def compile(self, expression: str, wanted: Type) -> CelRule | Mistake:
        if mistake := refused(expression):
            return mistake
        try:
            program = self._env.compile(expression)
            given = program.return_type().name()
        except _Broken as error:
            return first_of(str(error), expression)
        if _TYPE_NAMES.get(given) != wanted:
            shown: str = _TYPE_NAMES.get(given) or given.lower()
            return Mistake(message=f"it gives {shown}, {wanted} is needed", hint=_convert(shown, wanted))
        for pattern, mistake in patterns_in(expression):
            trial = f"''.matches({pattern})"
            if isinstance(self._rule(trial, self._env.compile(trial)).run(self.values({})), Failed):
                return mistake
        return self._rule(expression, program)

    def any_of(self, rules: Sequence[CompiledRule]) -> CelRule | None:
        # Each in a line of its own: it may end with a remark.
        expression = " || ".join(f"({rule.expression}\n)" for rule in rules)
        try:
            return self._rule(expression, self._env.compile(expression))
        except _Broken:
            return None

    def _rule(self, expression: str, program: Any) -> CelRule:
        return CelRule(expression, program, self._cel.Type.ERROR, names_in(expression))

    def values(self, facts: Mapping[str, object]) -> object:
        at: Any = facts.get("now")
        return self._env.Activation(facts if at is None else {**facts, "now": datetime.fromtimestamp(at, UTC)})

    @cached_property
    def _cel(self) -> Any:
        from cel_expr_python import cel  # pyright: ignore[reportMissingTypeStubs]

        return cel

    @cached_property
    def _env(self) -> Any:
        kinds = self._cel.Type
        text, number = kinds.STRING, kinds.INT
        types: dict[Type, Any] = {
            "bool": kinds.BOOL, "int": number, "double": kinds.DOUBLE, "string": text, "timestamp": kinds.TIMESTAMP,
            "list(string)": kinds.List(text), "map(string, string)": kinds.Map(text, text),
            "map(string, int)": kinds.Map(text, number),
        }  # fmt: skip
        # Whole dotted names are variables: an unknown one is a mistake, not an absent key.
        return self._cel.NewEnv(variables={name: types[kind] for name, (kind, _) in NAMES.items()})


def _plain(text: str) -> str:
    """Without the status word in front."""
    status, colon, rest = text.partition(": ")
    return rest if colon and status.isupper() else text


def _convert(given: str, wanted: Type) -> str:
    if wanted == "bool":
        return "compare it with something"
    if {given, wanted} == {"int", "double"}:
        return "write 4.0 for a double" if wanted == "double" else "write 4 for an int, or convert with int(...)"
    return ""
