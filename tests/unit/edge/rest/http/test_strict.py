"""The strict JSON border, against Python's own JSON reader."""

import contextlib
import json
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.edge.rest.http.problems import Problem
from ares.edge.rest.http.strict import DEPTH_MAX, StrictDecoder, check_depth, invalid
from ares.model.access import TenantRecord
from ares.model.base import Record
from ares.model.quota import Limits


class Inner(Record, frozen=True):
    long_name: int = 0


class Shell(Record, frozen=True):
    """A request with a part that often comes again."""

    one: "Outer"
    id_text: Annotated[str, msgspec.Meta(max_length=5)] | None = None
    count: int = 0


class Outer(Record, frozen=True):
    one: Inner = Inner()
    maybe: Inner | None = None
    many: tuple[Inner, ...] = ()
    bounded: Annotated[list[Inner], msgspec.Meta(max_length=5)] = []
    named: dict[str, Inner | None] = {}
    sparse: tuple[Inner | None, ...] = ()
    free: dict[str, str] = {}
    plain: str | int | None = None


DECODER = StrictDecoder(Outer)

inner = st.fixed_dictionaries({}, optional={"longName": st.integers(-100, 100)})
outer = st.fixed_dictionaries(
    {},
    optional={
        "one": inner,
        "maybe": st.none() | inner,
        "many": st.lists(inner, max_size=3),
        "bounded": st.lists(inner, max_size=3),
        "named": st.dictionaries(st.text(max_size=5), st.none() | inner, max_size=3),
        "sparse": st.lists(st.none() | inner, max_size=3),
        "free": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
        "plain": st.none() | st.text(max_size=5) | st.integers(),
    },
)


@given(outer)
def test_good_values_pass_whatever_their_text(value: dict[str, Any]) -> None:
    decoded, plain = DECODER.decode(json.dumps(value).encode())
    assert plain == value
    assert isinstance(decoded, Outer)


def _paths(value: Any, path: str = "$") -> list[tuple[dict[str, Any], str]]:
    """Every object of known fields, with its path."""
    if not isinstance(value, dict):
        return []
    found = [(value, path)]
    for key in ("one", "maybe"):
        found += _paths(value.get(key), f"{path}.{key}")
    for key in ("many", "bounded"):
        for place, item in enumerate(value.get(key, [])):
            found += _paths(item, f"{path}.{key}[{place}]")
    return found


@given(outer, st.data())
def test_an_unknown_field_is_found_wherever_it_is(value: dict[str, Any], data: st.DataObject) -> None:
    target, path = data.draw(st.sampled_from(_paths(value)))
    target["surprise"] = data.draw(st.none() | st.integers() | st.just({"deep": [1]}))
    with pytest.raises(Problem) as refused:
        DECODER.decode(json.dumps(value).encode())
    assert (refused.value.code, refused.value.path) == ("unknown-field", path)
    assert "surprise" in refused.value.detail


@pytest.mark.parametrize(
    "text",
    [
        '{"plain":1,"plain":1}',
        '{"one":{"longName":1,"longName":2}}',
        '{"many":[{},{"longName":1,"longName":1}]}',
        '{"free":{"a":"1","b":"2","a":"3"}}',
        '{"free":{"a:b":"::","a":"1","\\u0061":"2"}}',
        '{"plain":1,"pl\\u0061in":2}',
    ],
)
def test_duplicate_keys_are_found(text: str) -> None:
    with pytest.raises(Problem) as refused:
        DECODER.decode(text.encode())
    assert refused.value.code == "duplicate-key"


def test_colons_in_text_are_not_duplicates() -> None:
    decoded, _ = DECODER.decode(b'{"free":{"a:b":"c:d","url":"http://x:1"},"plain":":\\":"}')
    assert decoded.free == {"a:b": "c:d", "url": "http://x:1"}


def _depth(value: Any) -> int:
    if isinstance(value, list):
        return 1 + max((_depth(item) for item in value), default=0)
    if isinstance(value, dict):
        return 1 + max((_depth(item) for item in value.values()), default=0)
    return 0


brackets = st.text(alphabet='[]{}"\\a', max_size=4)
nested = st.recursive(
    brackets,
    lambda child: st.lists(child, max_size=3) | st.dictionaries(brackets, child, max_size=3),
    max_leaves=60,
)


plain = st.text(alphabet="[]{}a", max_size=4)
unescaped = st.recursive(
    plain,
    lambda child: st.lists(child, max_size=3) | st.dictionaries(plain, child, max_size=3),
    max_leaves=60,
)


@given(nested | unescaped, st.integers(0, 40))
def test_depth_is_measured_exactly(value: Any, wrapped: int) -> None:
    for _ in range(wrapped):
        value = [value]
    raw = json.dumps(value).encode()
    if _depth(value) <= DEPTH_MAX:
        check_depth(raw)
    else:
        with pytest.raises(Problem) as refused:
            check_depth(raw)
        assert refused.value.code == "too-deep"


@given(st.binary(max_size=200))
def test_rubbish_is_refused_and_never_breaks(raw: bytes) -> None:
    with contextlib.suppress(Problem):
        decoded, _ = DECODER.decode(raw)
        assert isinstance(decoded, Outer)


parts = st.lists(st.sampled_from([{"plain": "a:b"}, {"free": {"x": "y"}}, {"one": {"longName": 1}}]), min_size=2)
beside = st.fixed_dictionaries(
    {}, optional={"idText": st.text(max_size=7), "count": st.integers(0, 9), "more": st.just(1)}
)


@given(parts, beside)
def test_what_came_before_is_read_as_if_it_had_not(parts: list[dict[str, Any]], beside: dict[str, Any]) -> None:
    sharing = StrictDecoder(Shell, "one")
    for part in parts:
        raw = json.dumps({"one": part, **beside}).encode()
        assert _outcome(sharing, raw) == _outcome(StrictDecoder(Shell), raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"one":{"plain":"x"},"one":{"plain":"x"}}', b'{"one":{"plain":"x"},"idText":"a","idText":"b"}',
        b'{"one":{"plain":"x"},"idText":"a"}garbage', b'{"one":{"plain":"x"},"idText":"\xd5"}',
        b'{"one":{"plain":"x"}', b'{"one":{"plain":"x"},"idText":null}', b'{"idText":"a"}', b'{"one":1}',
    ],
)  # fmt: skip
def test_what_is_wrong_beside_a_part_that_came_before_is_found(raw: bytes) -> None:
    sharing = StrictDecoder(Shell, "one")
    sharing.decode(b'{"one":{"plain":"x"}}')
    assert _outcome(sharing, raw) == _outcome(StrictDecoder(Shell), raw)


def test_equal_parts_are_one_object() -> None:
    sharing = StrictDecoder(Shell, "one")
    first, _ = sharing.decode(b'{"one":{"plain":"x"},"idText":"a"}')
    second, plain = sharing.decode(b'{"idText":"b","one":{"plain":"x"}}')
    assert second.one is first.one
    assert plain == {"one": {"plain": "x"}, "idText": "b"}


def test_parts_that_are_kept_are_few_and_short() -> None:
    sharing, long = StrictDecoder(Shell, "one"), b'{"one":{"plain":"%b"}}' % (b"x" * 5000)
    assert sharing.decode(long)[0].one is not sharing.decode(long)[0].one
    first, _ = sharing.decode(b'{"one":{"plain":0}}')
    for number in range(1, 2000):
        sharing.decode(b'{"one":{"plain":%d}}' % number)
    assert sharing.decode(b'{"one":{"plain":0}}')[0].one is not first.one


def _outcome(decoder: StrictDecoder[Shell], raw: bytes) -> object:
    try:
        return decoder.decode(raw)
    except Problem as problem:
        return problem.code, problem.detail, problem.path


def test_a_request_that_chooses_between_structs_is_a_mistake_of_ours() -> None:
    class One(Record, frozen=True, tag="one"):
        a: int = 0

    class Two(Record, frozen=True, tag="two"):
        b: int = 0

    class Bad(Record, frozen=True):
        value: One | Two | None = None

    with pytest.raises(AssertionError, match="choose"):
        StrictDecoder(Bad)


def test_text_that_is_no_utf8_is_found_where_the_types_do_not_look() -> None:
    with pytest.raises(Problem) as refused:
        DECODER.decode(b'{"unknown\xd5":1}')
    assert refused.value.code == "malformed-json"


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [(TenantRecord, {"name": "Bad Name"}, "such as vision-lab"), (Limits, {"amounts": {"gpux": {}}}, "jobs-queued")],
)
def test_what_was_expected_is_said_in_words(kind: type[msgspec.Struct], value: object, words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="regex") as failed:
        msgspec.convert(value, kind)
    said = invalid(failed.value).detail
    assert words in said
    assert "regex" not in said
