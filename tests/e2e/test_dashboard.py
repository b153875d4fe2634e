"""The dashboard in a real browser: every page in every state and look, keys, hostile text, and a whole story."""

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from playwright.sync_api import Browser, Route

from ares.api.books.ages import ClusterAge
from ares.api.nodes import MemberView
from ares.edge.client.sync import Client
from ares.model.job import JobSpec, Resources, RetryPolicy
from ares.model.uplink import ClusterReport, ReportedShape
from tests.browser import Viewer, chromium, viewer
from tests.oidc import Idp, running
from tests.platform import Platform

# Much of their time a browser and a server begin.
pytestmark = pytest.mark.slow

PLACES = (
    "/", "/queue", "/jobs", "/gpus", "/gpus?as=table", "/nodes", "/clusters", "/what-if", "/sla", "/cost", "/history",
    "/health", "/insights", "/alerts", "/reports", "/audit", "/api", "/api?op=submitJob",
)  # fmt: skip
TABS = ("", "/why", "/logs", "/trace", "/events", "/placement", "/preemptions")
MANY = 250
NO_PLACE = "404 (Not Found)"
REFUSED = "403 (Forbidden)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A server, and nothing else: no machine, no job."""
    with Platform(tmp_path_factory.mktemp("bare"), lend=False, warm=True) as platform:
        platform.server()
        yield platform


@pytest.fixture(scope="module")
def idp() -> Iterator[Idp]:
    with running() as made:
        yield made


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory, idp: Idp) -> Iterator[Platform]:
    """A machine with eight mock GPUs; a tenant with hundreds of jobs that wait for ever, and one with a single job."""
    with Platform(tmp_path_factory.mktemp("busy"), lend=False, warm=True) as platform:
        # The second retry within a minute is a storm.
        corp = {
            f"ARES_AUTH__OIDC__CORP__{name.upper()}": getattr(idp.provider, name)
            for name in ("issuer", "audience", "jwks_url", "client_id", "token_url", "authorize_url")
        }
        platform.server(env={"ARES_LIMITS__RETRIES_PER_MINUTE": "1", **corp})
        platform.agent("node-a", gpus=8)
        client = platform.client()
        client.submit_many(
            [
                JobSpec(command=("true",), name=f"train-{number}", resources=Resources(gpus=1, gpu_model="H900"))
                for number in range(MANY)
            ]
        )
        client.create_tenant("solo")
        yield platform


def solo(platform: Platform) -> Client:
    made = platform.client().create_token(role="tenant-admin", tenant="solo", name="solo")
    return platform.client(token=made.token)


def only_job(platform: Platform) -> str:
    """The one job of its tenant: a failure that was tried twice."""
    client = solo(platform)
    command = ["sh", "-c", "echo out; echo bad >&2; exit 3"]
    job = client.submit(command=command, name="only", workdir="none", retries=1, request_id="the-only-one")
    client.wait(job)
    return job.id


def pages(job: str) -> tuple[str, ...]:
    return (*PLACES, "/nodes/node-a", *(f"/jobs/{job}{tab}" for tab in TABS))


def test_pages_of_a_tenant_with_one_job(browser: Browser, busy: Platform) -> None:
    """And of the other tenant's jobs no name is shown."""
    job = only_job(busy)
    with viewer(browser, solo(busy), expects=lambda text: NO_PLACE in text or REFUSED in text) as person:
        for path in pages(job):
            person.go(path)
            assert person.seen(f"one {path}".replace(job, "job")) == []
            assert "train-" not in person.text()
        person.go(f"/jobs/{job}/trace")
        person.page.get_by_role("button", name="✕ Attempt 1: runs").click()
        person.sees("exit code 3")
        person.page.get_by_role("button", name="✕ Attempt 2: runs").wait_for()
        with person.page.expect_download() as kept:
            person.page.get_by_role("link", name="For Chrome and Perfetto").click()
        events = json.loads(kept.value.path().read_text())["traceEvents"]
        assert [event["name"] for event in events if event["name"] == "run"] == ["run", "run"]
        assert person.violations() == []


def test_pages_without_anything_say_so_and_what_to_do(browser: Browser, bare: Platform) -> None:
    says = {
        "/": "There are no nodes", "/queue": "Nothing waits", "/jobs": "There are no jobs yet",
        "/gpus": "No node has a GPU", "/gpus?as=table": "No node has a GPU", "/nodes": "No machine has joined",
        "/what-if": "There are no pools", "/sla": "No job had a deadline", "/cost": "No tenant has spent anything",
        "/clusters": "a cluster of its own", "/insights": "Nothing is odd", "/reports": "Compliance",
        "/history": "Jobs in the queue", "/health": "there is none: jobs wait for the first",
        "/alerts": "There is no alert", "/audit": "Audit",
        "/api": "calls of version", "/api?q=submit": "Submit a job.", "/api?op=submitJob": "nightly-2026-11-15",
        "/jobs/zzzz": "There is no job zzzz",
    }  # fmt: skip
    assert set(PLACES) <= set(says)
    with viewer(browser, bare.client(), expects=lambda text: NO_PLACE in text) as person:
        for path, text in says.items():
            person.go(path)
            person.sees(text)
            assert person.seen(f"empty {path}") == []


def broken(route: Route) -> None:
    route.abort("connectionrefused")


def test_pages_of_a_server_that_does_not_answer_say_so(browser: Browser, busy: Platform) -> None:
    """From the beginning: an error, a way to try again where something is asked for, and no zeros."""
    job = only_job(busy)
    with viewer(browser, busy.client(), expects=lambda text: "ERR_CONNECTION" in text) as person:
        person.page.route(lambda url: "/v1/" in url and "whoami" not in url, broken)
        person.open("/jobs")
        for path in pages(job):
            person.go(path)
            person.page.get_by_role("alert").first.wait_for()
            person.sees("The server does not answer")
            assert person.seen(f"error {path}".replace(job, "job")) == []


def test_pages_of_a_server_that_is_gone_keep_what_they_had(browser: Browser, busy: Platform) -> None:
    with viewer(browser, busy.client(), expects=lambda text: "ERR_CONNECTION" in text) as person:
        for path in ("/", "/jobs", "/gpus"):
            person.page.unroute_all()
            person.go(path)
            before = person.page.locator("main").inner_text()
            person.page.route("**/v1/**", broken)
            person.sees("The server does not answer")
            person.sees("As of")
            assert before.split("\n")[0] in person.text()
            assert person.violations() == [], path


def test_a_job_that_waits_is_explained_changed_and_runs(browser: Browser, busy: Platform) -> None:
    client = busy.client()
    command = ["sh", "-c", "echo it runs; sleep 600"]
    job = client.submit(command=command, name="too-large", gpus=16, workdir="none")
    with viewer(browser, client) as person:
        page = person.page
        person.open("/queue?reason=INFEASIBLE_GPU")
        page.get_by_role("link", name="too-large").first.click()
        person.at(f"/jobs/{job.id}/why")
        person.sees("needs 16 GPUs on one node")
        page.get_by_role("button", name="Change the job so").click()
        page.locator(".job-title .phase-RUNNING").wait_for()
        page.get_by_role("link", name="Logs").click()
        person.sees("it runs")
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("button", name="Cancel it").click()
        page.locator(".job-title .phase-CANCELLED").wait_for()
        assert person.violations() == []
    assert client.get(job.id).state.phase == "CANCELLED"


def test_an_alert_leads_to_its_runbook_jobs_and_cause(browser: Browser, busy: Platform) -> None:
    client = busy.client()
    command = ("sh", "-c", "echo the disk of the data set is not mounted >&2; exit 7")
    patience = RetryPolicy(limit=100, base_s=0.0)
    client.submit_many([JobSpec(command=command, name="storm", retry=patience)])
    with viewer(browser, client) as person:
        page = person.page
        page.get_by_role("link", name="1 open alert").click()
        person.at("/alerts")
        person.sees("Retry storm")
        page.get_by_role("button", name="What to do").click()
        person.sees("its retries pause, other tenants go on")
        assert person.violations() == []
        page.get_by_role("link", name="Jobs that are being retried").click()
        person.at("/jobs?phase=RETRYING")
        page.get_by_role("link", name="storm").first.click()
        page.get_by_role("link", name="Logs").click()
        person.sees("the disk of the data set is not mounted")
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("button", name="Cancel it").click()
        page.locator(".job-title .phase-CANCELLED").wait_for()
        person.go("/alerts")
        page.get_by_role("button", name="Resolve", exact=True).click()
        person.sees("There is no alert")


HOSTILE = "<img src=x onerror=window.__owned=1><script>window.__owned=1</script>"


def test_hostile_text_is_shown_as_text(browser: Browser, busy: Platform) -> None:
    client = busy.client()
    script = (
        f"import os; print('{HOSTILE}'); print('\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07after');"
        " print('y' * 1_000_000); print('the end');"
        f" open(os.environ['ARES_RESULT_FILE'], 'w').write('\"{HOSTILE}\"')"
    )
    labels = {"note": HOSTILE}
    job = client.submit(command=["python3", "-c", script], name="hostile", labels=labels, workdir="none")
    client.wait(job)
    with viewer(browser, client, expects=lambda text: NO_PLACE in text) as person:
        for tab in TABS:
            person.open(f"/jobs/{job.id}{tab}")
            assert person.page.evaluate("() => window.__owned") is None
            assert person.page.locator("main img, main script").count() == 0
            assert person.violations() == []
        person.open(f"/jobs/{job.id}")
        assert person.text().count(HOSTILE) >= 2
        person.open(f"/jobs/{job.id}/logs")
        shown = person.page.locator(".log").inner_text()
        assert HOSTILE in shown
        assert "red after" in shown
        assert "996,000 more characters" in shown


def test_everything_is_reached_by_the_keyboard(browser: Browser, busy: Platform) -> None:
    with viewer(browser, busy.client()) as person:
        page, keys = person.page, person.page.keyboard
        keys.press("Tab")
        assert page.evaluate("() => document.activeElement.textContent") == "Skip to content"
        seen: set[str] = set()
        for _ in range(24):
            keys.press("Tab")
            seen.add(page.evaluate("() => document.activeElement.textContent || document.activeElement.id"))
        assert {"Queue", "Jobs", "GPUs", "search"} <= seen
        keys.press("g")
        keys.press("j")
        person.at("/jobs")
        person.drawn()
        for key, row in (("j", 2), ("j", 3), ("ArrowUp", 2), ("k", 2), ("PageDown", 10)):
            keys.press(key)
            page.wait_for_function(
                "(least) => Number(document.activeElement.getAttribute('aria-rowindex')) >= least", arg=row
            )
        keys.press("End")
        page.wait_for_function("() => Number(document.activeElement.getAttribute('aria-rowindex')) > 50")
        keys.press("Enter")
        page.locator(".job-title").wait_for()
        keys.press("e")
        page.wait_for_url("**/why")
        keys.press("?")
        page.get_by_role("dialog").wait_for()
        assert person.violations() == []
        keys.press("Escape")
        page.get_by_role("dialog").wait_for(state="hidden")
        keys.press("/")
        keys.type("train-7")
        keys.press("Enter")
        person.at("/jobs?name=train-7")
        person.sees("train-7")


ALL_OF_THEM = 100_000


def members() -> list[dict[str, Any]]:
    """As a global plane with fifty clusters tells them, one of which has been silent for five minutes."""
    shape = ReportedShape(
        cpu_milli=64_000,
        memory_mib=1 << 19,
        gpus=8,
        gpu_model="H100",
        nodes=125,
        free_cpu_milli=32_000,
        free_memory_mib=4096,
        free_gpus=100,
    )
    found: list[MemberView] = []
    for number in range(50):
        name, is_silent = f"cluster-{number:02d}", number == 7
        report = ClusterReport(
            cluster=name,
            incarnation=1,
            seq=9,
            shapes=(shape,),
            nodes=125,
            ready_nodes=124,
            running=900,
            pending=40,
            rtt_ms=3,
            local=1,
            version="0.1.0",
            mode="FEDERATED",
        )
        found.append(
            MemberView(
                name=name, code=f"{number:02d}", kind="nodes", state="DRAINING" if number == 3 else "ACTIVE",
                region="eu", generation=1, epoch=1, note="", since=time.time() - 9999.0,
                reach="UNREACHABLE" if is_silent else "REACHABLE", heard_s=300.0 if is_silent else 1.5, offered=2,
                confirmed=800, report=report,
            )
        )  # fmt: skip
    return [msgspec.to_builtins(member) for member in found]


def ages() -> list[dict[str, Any]]:
    """How old what these clusters told of their books is."""
    found = [
        ClusterAge(
            cluster=member["name"], state=member["state"], silent=member["heardS"] > 100.0, heard_s=member["heardS"],
            told_at=time.time() - member["heardS"] - 30.0, closed_day="2026-11-16", incarnation=1,
        )
        for member in members()[:12]
    ]  # fmt: skip
    return [msgspec.to_builtins(age) for age in found]


def crowd(person: Viewer) -> None:
    """Answers as a server with a hundred thousand jobs and GPUs would give them, made of copies of real ones."""
    state = person.page.request.get(f"{person.url}/v1/jobs?limit=1").json()["jobs"][0]

    def jobs(route: Route) -> None:
        asked = parse_qs(urlsplit(route.request.url).query)
        first, size = int(asked.get("cursor", ["0"])[0]), int(asked["limit"][0])
        rows = [{**state, "id": f"job{at:013d}", "name": f"row {at}"} for at in range(first, first + size)]
        rest: dict[str, object] = {"waiting": {}, "arrayCounts": {}, "used": {}, "atRisk": [], "mockGpus": []}
        following = str(first + size) if first + size < ALL_OF_THEM else ""
        route.fulfill(body=json.dumps({"jobs": rows, "cursor": following, **rest}), content_type="application/json")

    def overview(route: Route) -> None:
        found = route.fetch().json()
        found["jobs"] = dict.fromkeys(found["jobs"], ALL_OF_THEM)
        route.fulfill(body=json.dumps(found), content_type="application/json")

    def nodes(route: Route) -> None:
        (node,) = route.fetch().json()["nodes"]
        many = [{**node, "name": f"node-{number:04d}"} for number in range(5000)]
        route.fulfill(body=json.dumps({"nodes": many}), content_type="application/json")

    def gpus(route: Route) -> None:
        found = route.fetch().json()
        copies = ALL_OF_THEM // 8
        (node,) = found["nodes"]
        found["nodes"] = [{**node, "name": f"node-{at:05d}", "first": 8 * at} for at in range(copies)]
        for column in ("index", "memoryMib", "heldMilli", "job", "busy", "watts", "celsius"):
            found[column] *= copies
        route.fulfill(body=json.dumps(found), content_type="application/json")

    def clusters(route: Route) -> None:
        route.fulfill(body=json.dumps({"clusters": members()}), content_type="application/json")

    def aged(route: Route) -> None:
        route.fulfill(
            body=json.dumps({**route.fetch().json(), "clusters": ages()}), content_type="application/json"
        )  # fmt: skip

    answers = {
        "**/v1/cost?*": aged, "**/v1/sla*": aged,
        "**/v1/jobs?*": jobs, "**/v1/overview": overview, "**/v1/nodes": nodes, "**/v1/gpus": gpus,
        "**/v1/federation/clusters": clusters,
    }  # fmt: skip
    for address, answered in answers.items():
        person.page.route(address, answered)


def test_pages_of_a_hundred_thousand_draw_what_is_in_sight(browser: Browser, busy: Platform) -> None:
    client = busy.client()
    job = next(iter(client.list(page=1))).id
    with viewer(browser, client, expects=lambda text: NO_PLACE in text) as person:
        person.go("/queue")
        person.sees("Infeasible GPU model")
        crowd(person)
        person.open("/jobs")
        for path in pages(job):
            person.go(path)
            assert person.seen(f"many {path}".replace(job, "job")) == []
            assert person.page.evaluate("() => document.querySelectorAll('*').length") <= 1200, path
        person.look("dark")
        person.go("/")
        person.sees("49 of 50 clusters: cluster-07 silent 5m")
        person.go("/clusters")
        person.sees("Its jobs stay its own and go on there")
        person.page.get_by_role("link", name="cluster-03").click()
        person.at("/clusters/cluster-03")
        person.page.get_by_role("button", name="Resume", exact=True).wait_for()
        assert person.seen("many cluster") == []
        person.look("dark")
        for path in ("/cost?by=cluster", "/sla?by=cluster"):
            person.go(path)
            person.sees("cluster-07 is silent for 5m")
            person.sees("what it does meanwhile it tells when it is back")
        person.go("/jobs")
        person.page.wait_for_function(
            """() => {
                const grid = document.querySelector("[role=grid]");
                grid.scrollTop = grid.scrollHeight;
                return [...grid.querySelectorAll("[data-at]")].some((row) => Number(row.dataset.at) > 1000);
            }"""
        )
        assert person.page.evaluate("() => document.querySelectorAll('*').length") <= 800


def test_logging_in_and_out(browser: Browser, busy: Platform) -> None:
    client = busy.client()
    made = client.create_token(role="viewer", tenant="solo", name="for a moment")
    mine = busy.client(token=made.token)
    link = f"{mine.endpoint.shown}{mine.login_link().path}"
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    page.get_by_role("heading", name="Overview").wait_for()
    assert "login" not in page.url, "the secret must not stay in the address"
    assert page.evaluate("() => document.cookie") == ""
    assert "ares_" not in page.evaluate("() => JSON.stringify({...localStorage, ...sessionStorage})")
    # The session ends with its token; the page says so, and keeps its address.
    page.goto(f"{mine.endpoint.shown}/ui/jobs?phase=FAILED")
    page.get_by_role("heading", name="Jobs").wait_for()
    client.revoke_token(made.record.id)
    page.get_by_text("Your session has ended").wait_for()
    page.get_by_label("API token").fill("ares_0000000000_" + "x" * 43)
    page.get_by_role("button", name="Log in", exact=True).click()
    page.get_by_text("This token is not accepted").wait_for()
    other = client.create_token(role="viewer", tenant="solo", name="another")
    page.get_by_label("API token").fill(other.token)
    page.get_by_role("button", name="Log in", exact=True).click()
    page.get_by_role("heading", name="Jobs").wait_for()
    assert page.url.endswith("/ui/jobs?phase=FAILED")
    page.locator(".me summary").click()
    page.get_by_role("button", name="Log out").click()
    page.get_by_text("You are logged out").wait_for()
    page.goto(link)
    page.get_by_text("This link was used before").wait_for()
    context.close()


def test_logging_in_by_the_identity_provider(browser: Browser, busy: Platform, idp: Idp) -> None:
    client = busy.client()
    client.create_user("alice", tenant="solo", role="viewer", identity=idp.identity())
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{client.endpoint.shown}/ui/jobs?phase=FAILED")
    # A person who declines comes back to the same page, and is told.
    idp.agrees = False
    page.get_by_role("button", name="Log in with corp").click()
    page.get_by_text("The provider did not let you in: not today").wait_for()
    idp.agrees = True
    page.get_by_role("button", name="Log in with corp").click()
    page.get_by_role("heading", name="Jobs").wait_for()
    assert page.url.endswith("/ui/jobs?phase=FAILED"), "where it began, without the code"
    assert page.locator(".me summary").inner_text() == "alice"
    assert page.evaluate("() => document.cookie") == ""
    assert page.evaluate("() => sessionStorage.length") == 0
    context.close()
