"""The address of Jupyter in a job: the job's own words must not make it another one."""

import json

import pytest

from ares.edge.cli.forwarding import JupyterServer, server_in


@pytest.mark.parametrize(
    ("told", "path"),
    [
        ({"port": 8888, "base_url": "/", "token": "abc"}, "/?token=abc"),
        ({"port": 8888, "base_url": "/user/a%20b/"}, "/user/a%20b/"),
        ({"port": 8888}, "/"),
        ({"port": 8888, "token": "a&b #\n\x1b["}, "/?token=a%26b%20%23%0A%1B%5B"),
        ({"port": 8888, "base_url": "/?x=1#y"}, "/%3Fx%3D1%23y"),
    ],
)
def test_address_is_made_of_quoted_words(told: object, path: str) -> None:
    assert server_in(json.dumps(told)) == JupyterServer(8888, path)


@pytest.mark.parametrize(
    "told",
    [
        {"port": 0},
        {"port": 65_536},
        {"port": True},
        {"port": "8888"},
        {"port": 8888, "base_url": "@example.org/"},
        {"port": 8888, "base_url": "1.example.org/"},
        {"port": 8888, "base_url": ""},
        {"port": 8888, "base_url": "/\x1b[2J"},
        {"port": 8888, "base_url": "/\nhttp://example.org/"},
        {"port": 8888, "base_url": ["/"]},
        {"port": 8888, "token": 5},
        {"port": 8888, "token": "\ud800"},
        {"port": 8888, "token": "x" * 10_000},
        [],
        8888,
    ],
)
def test_words_that_would_lead_elsewhere_are_passed_over(told: object) -> None:
    assert server_in(json.dumps(told)) is None


@pytest.mark.parametrize("line", ["", "[I 2026] Jupyter is running", "[" * 100_000])
def test_lines_that_are_no_server_are_passed_over(line: str) -> None:
    assert server_in(line) is None
