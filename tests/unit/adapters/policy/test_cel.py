"""The language of policies: all that is relied on, one line each, and where mistakes are said to be."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ares.adapters.policy import CelRules
from ares.core.policy.facts import NAMES, UNTOLD, PolicyJob, facts, ways
from ares.model.access import Principal
from ares.model.job import Gang, JobSpec, Resources, Toleration
from ares.model.policy import Mistake
from ares.ports.policy import Failed

# A Sunday, 22:13:20 UTC.
NOW = 1_794_780_800.0
ANN = Principal(token_id="t1", tenant="acme", role="submitter", user="ann")
SPEC = JobSpec(
    command=("python", "train.py", "--fast"),
    name="train",
    env={"SEED": "1"},
    resources=Resources(cpu_milli=8000, memory_mib=16 * 1024, gpus=2, gpu_model="H100", devices={"tpu": 1}),
    gang=Gang(ranks=4),
    priority="HIGH",
    time_limit_s=3600.0,
    labels={"owner": "ann", "pattern": "["},
    selector={"pool": "a100"},
    tolerations=(Toleration(key="gpu"),),
    array="0-9",
)
NUMBERS = {
    "tenant.gpus": 8.0, "tenant.gpus_quota": 64.0, "tenant.gpu_hours": 10.0, "tenant.gpu_hours_quota": 100.0,
    "tenant.spent": 50.0, "tenant.budget": 100.0,
}  # fmt: skip
FACTS = facts(PolicyJob(ANN, SPEC, NOW, tasks=10, cost=12.5, numbers=NUMBERS))


@pytest.fixture(scope="module")
def rules() -> CelRules:
    return CelRules()


def cases() -> Iterator[tuple[str, str]]:
    for line in (Path(__file__).parent / "conformance.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            expression, arrow, outcome = line.rpartition(" -> ")
            assert arrow, line
            yield expression, outcome


def outcome(rules: CelRules, expression: str) -> str:
    rule = rules.compile(expression, "bool")
    if isinstance(rule, Mistake):
        return "refused"
    found = rule.run(rules.values(FACTS))
    return "error" if isinstance(found, Failed) else str(found).lower()


def test_every_line_of_the_conformance_file_holds(rules: CelRules) -> None:
    every = list(cases())
    assert len(every) >= 200, len(every)
    wrong = [
        f"{expression}: {found}, not {wanted}"
        for expression, wanted in every
        if (found := outcome(rules, expression)) != wanted
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("expression", "line", "column", "says", "hint"),
    [
        ("job.gpuss > 4", 1, 1, "there is no job.gpuss", "job.gpus"),
        ("true &&\n  job.gpu_modell == 'x'", 2, 3, "there is no job.gpu_modell", "job.gpu_model"),
        ("tenant.gpu_hours < tenant.quota", 1, 20, "there is no tenant.quota", "_quota"),
        ("job.name.startWith('a')", 1, 10, "there is no startWith", "startsWith"),
        ("gpus > 4", 1, 1, "there is no gpus", "job.gpus"),
        ("nonsense.zzz", 1, 1, "there is no nonsense.zzz", "rules speak of job, now, tenant, user"),
        ("job.gpus > 4.0", 1, 10, "> does not take (int, double)", "int and double do not mix"),
        ("'é' == 'é' && job.gpus > 4.0", 1, 24, "> does not take (int, double)", "int and double do not mix"),
        ("job.gpus", 1, 1, "it gives int, bool is needed", "compare it"),
        ("job.gpus = 4", 1, 10, "token recognition error", "write == to compare"),
        ("true &&\n\n job.name.matches('[')", 3, 19, "'[' is not a regular expression", "RE2"),
        ("job.command.all(a,\n  ['x'].all(b, a == b))", 2, 12, "a loop inside a loop", "`in`"),
        ("job.command.all(a, a in job.residency)", 1, 25, "job.residency is read inside a loop", "plain values"),
        ("true || dyn(job.gpus) > 4.0", 1, 9, "dyn() would hide mistakes", "convert"),
        ("'dyn(1)' == 'a' && job.`gpus` > 1", 1, 24, "backticks", "job.labels['a/b']"),
    ],
)  # fmt: skip
def test_a_mistake_is_said_where_it_is_and_with_what_was_meant(
    rules: CelRules, expression: str, line: int, column: int, says: str, hint: str
) -> None:
    found = rules.compile(expression, "bool")
    assert isinstance(found, Mistake), expression
    assert (found.line, found.column) == (line, column), found
    assert says in found.message
    assert hint in found.hint


@pytest.mark.parametrize(("expression", "wanted"), [("3600", "double"), ("3600.0", "int"), ("1", "string")])
def test_what_is_set_has_the_type_of_its_field(rules: CelRules, expression: str, wanted: str) -> None:
    assert isinstance(rules.compile(expression, wanted), Mistake)  # type: ignore[arg-type]


def test_facts_have_every_name_of_the_table_and_the_type_it_says() -> None:
    kinds = {
        "bool": bool, "int": int, "double": float, "string": str, "timestamp": float, "list(string)": list,
        "map(string, string)": dict, "map(string, int)": dict,
    }  # fmt: skip
    assert FACTS.keys() == NAMES.keys()
    assert [name for name, (kind, _) in NAMES.items() if type(FACTS[name]) is not kinds[kind]] == []


def test_rules_are_told_of_every_field_of_a_job_or_it_is_said_why_not() -> None:
    """A new field that no rule can speak of would be a way around every rule."""
    told = {
        "command": "command", "name": "name", "env": "env_keys", "workdir": "workdir", "resources": "gpus",
        "priority": "priority", "effects": "effects", "restart": "restart", "retry": "retry_limit",
        "time_limit_s": "time_limit_s", "grace_s": "grace_s", "lease_s": "lease_s", "expected_runtime_s": "expected_s",
        "labels": "labels", "selector": "selector", "array": "tasks", "gang": "ranks", "topology": "topology",
        "qos": "qos", "licences": "licences", "team": "team", "affinity": "affinity_keys",
        "tolerations": "tolerations", "residency": "residency", "inputs": "inputs", "preemption": "preemptible",
        "reservation": "reservation", "sla": "sla", "isolation": "isolation", "network": "network",
        "secrets": "secrets", "input_refs": "input_refs", "project": "project", "notify": "notify",
        "image": "image", "python": "python", "children": "children", "runtime": "runtime",
        "on_partition": "on_partition",
    }  # fmt: skip
    assert {f"job.{name}" for name in told.values()} <= NAMES.keys()
    assert set(JobSpec.__struct_fields__) == told.keys() | UNTOLD.keys()
    assert told.keys().isdisjoint(UNTOLD)


def test_a_job_is_judged_with_each_of_its_alternatives(rules: CelRules) -> None:
    """N21: what is dearer must not hide behind what is asked for first."""
    spec = JobSpec(command=("true",), alternatives=(Resources(gpus=1), Resources(gpus=16, gpu_model="H100")))
    rule = rules.compile("job.gpus > 8", "bool")
    assert not isinstance(rule, Mistake)
    assert [rule.run(rules.values(facts(PolicyJob(ANN, way, NOW)))) for way in ways(spec)] == [False, False, True]


def test_many_rules_asked_as_one_are_silent_only_when_each_is(rules: CelRules) -> None:
    """The quick way must never hide what a single rule would say, nor that one has no answer."""
    values = rules.values(FACTS)

    def asked(*expressions: str) -> object:
        made = [rules.compile(text, "bool") for text in expressions]
        every = rules.any_of([rule for rule in made if not isinstance(rule, Mistake)])
        assert every is not None
        return every.run(values)

    assert asked("job.gpus > 100", "job.name == 'x' // a remark", "false") is False
    assert asked("job.gpus > 100", "job.gpus > 4 // a remark", "job.cores > 1e6") is True
    assert isinstance(asked("job.gpus > 100", "job.labels.none == 'x'", "false"), Failed)
    assert asked("job.labels.none == 'x'", "true") is True
    assert asked("job.gpus > 100 ? true : false", "false") is False
    assert asked(*["job.gpus > 100"] * 100) is False


_SIGNS = [
    "job",
    "tenant",
    ".",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    "?",
    ":",
    "&&",
    "||",
    "!",
    "==",
    ">",
    "+",
    "-",
    "/",
    "in",
    "all",
    "exists",
    "map",
    "has",
    "size",
    "matches",
    "dyn",
    "a",
    "'x'",
    "'",
    '"',
    "'''",
    "b'",
    "r'\\'",
    "`",
    "//",
    "1",
    "1.5",
    "1u",
    "true",
    "null",
    "\\",
    "é",
    "😀",
]
_WORDS = st.sampled_from([*NAMES, *_SIGNS, "\n", " ", "\u2028", "9" * 30])


@given(st.lists(_WORDS, min_size=1, max_size=30).map(" ".join) | st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_whatever_is_written_is_a_rule_or_a_mistake_with_a_place(text: str) -> None:
    """N36-like: strangers' text reaches a compiler in C++; nothing else ever comes out of it."""
    found = RULES.compile(text, "bool")
    if isinstance(found, Mistake):
        assert found.line >= 1
        assert found.column >= 1
        assert found.message
    else:
        assert isinstance(found.run(RULES.values(FACTS)), bool | Failed)


RULES = CelRules()
