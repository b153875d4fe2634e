"""Where a stranger's URL may lead to."""

import pytest

from ares.core.net import Target, allowed, judged, refused, target_of


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1",
        "169.254.169.254", "169.254.1.1", "192.0.0.192", "168.63.129.16", "198.18.0.1", "224.0.0.1", "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::7f00:1",
        "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2002:7f00:1::", "2002:a9fe:a9fe::1",
        "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2001:db8::1", "not-an-address", "2130706433", "0x7f000001",
        # Local translators, site-local, segment routing, examples, ISATAP of 127.0.0.1, relays of 6to4.
        "64:ff9b:1::1", "64:ff9b:1:ffff::a00:1", "64:ff9b:1::808:808", "fec0::1", "feff::1", "::ffff:0:7f00:1",
        "::ffff:0:a9fe:a9fe", "::ffff:0:808:808", "5f00::1", "3fff::1", "2606:4700::5efe:7f00:1",
        "2606:4700::200:5efe:a00:1", "192.88.99.1", "100::1", "4000::1", "8000::1",
        # Teredo, of a client behind 127.0.0.1.
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
    ],
)  # fmt: skip
def test_addresses_that_are_not_of_the_open_internet_are_refused(address: str) -> None:
    """N22-like: loopback, private, link-local, metadata, and each of them inside another."""
    assert refused(address) is not None


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_addresses_of_the_open_internet_are_not(address: str) -> None:
    assert refused(address) is None


def test_one_good_address_of_a_name_does_not_clear_the_others() -> None:
    """N22-like: a name with two answers, of which the second is this machine."""
    assert judged("x.example", ["1.1.1.1", "8.8.8.8"], ()) == ["1.1.1.1", "8.8.8.8"]
    with pytest.raises(ValueError, match=r"127\.0\.0\.1 is not an address of the open internet"):
        judged("x.example", ["1.1.1.1", "127.0.0.1"], ())
    with pytest.raises(ValueError, match="has no address"):
        judged("x.example", [], ())


def test_the_operator_allows_networks_and_hosts_and_nothing_like_them() -> None:
    assert allowed("hooks.internal", "10.1.2.3", ("10.0.0.0/8",))
    assert allowed("hooks.internal", "::ffff:10.1.2.3", ("10.0.0.0/8",))
    assert allowed("HOOKS.internal", "10.1.2.3", ("hooks.internal",))
    assert not allowed("evil-hooks.internal", "10.1.2.3", ("hooks.internal",))
    assert not allowed("hooks.internal.evil.example", "127.0.0.1", ("hooks.internal", "10.0.0.0/8"))
    assert not allowed("x", "fd00::1", ("10.0.0.0/8",))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://x.example/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("gopher://127.0.0.1:70/", "scheme"),
        ("//x.example/", "scheme"),
        ("https://user:secret@x.example/", "user or password"),
        ("https://", "names no host"),
        ("https://x.example/a b", "spaces"),
        ("https://x.example/\r\nHost: evil", "control characters"),
        ("https://x.exämple/", "beyond ASCII"),
        ("https://x.example:99999/", "no URL"),
        ("https://[::1/", "no URL"),
    ],
)
def test_what_is_no_url_to_call_says_why(url: str, why: str) -> None:
    found = target_of(url)
    assert isinstance(found, str)
    assert why in found


def test_a_url_in_its_parts() -> None:
    assert target_of("https://x.example/a?b=c#d") == Target(scheme="https", host="x.example", port=443, path="/a?b=c")
    told = target_of("http://[2606:4700::1111]:8080")
    assert isinstance(told, Target)
    assert (told.authority, told.path) == ("[2606:4700::1111]:8080", "/")
