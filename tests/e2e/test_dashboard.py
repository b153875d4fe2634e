"""The dashboard in a real browser: every page in every state and look, keys, hostile text, and a whole story."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Route

from ares.edge.client.sync import Client
from ares.model.job import JobSpec, Resources
from tests.browser import LOOKS, Look, chromium, viewer
from tests.platform import Platform

# Much of their time a browser and a server begin.
pytestmark = pytest.mark.slow

PLACES = ("/", "/queue", "/jobs", "/gpus", "/gpus?as=table", "/nodes", "/what-if", "/alerts", "/audit")
TABS = ("", "/why", "/logs", "/events", "/placement")
MANY = 250
NO_PLACE = "404 (Not Found)"


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
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A machine with eight mock GPUs; a tenant with hundreds of jobs that wait for ever, and one with a single job."""
    with Platform(tmp_path_factory.mktemp("busy"), lend=False, warm=True) as platform:
        platform.server()
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


@pytest.mark.parametrize("look", LOOKS)
def test_pages_of_a_tenant_with_many_jobs(browser: Browser, busy: Platform, look: Look) -> None:
    client = busy.client()
    job = next(iter(client.list(page=1))).id
    with viewer(browser, client, expects=lambda text: NO_PLACE in text) as person:
        person.look(look)
        for path in (*PLACES, "/nodes/node-a", *(f"/jobs/{job}{tab}" for tab in TABS)):
            person.open(path)
            assert person.violations() == [], path
            wide = person.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{path} is wider than the window"
        person.open("/queue")
        person.sees("Infeasible GPU model")


def test_pages_of_a_tenant_with_one_job(browser: Browser, busy: Platform) -> None:
    """And of the other tenant's jobs no name is shown."""
    job = only_job(busy)
    with viewer(browser, solo(busy), expects=lambda text: NO_PLACE in text) as person:
        for path in ("/", "/jobs", "/queue", "/gpus", *(f"/jobs/{job}{tab}" for tab in TABS)):
            person.open(path)
            assert person.violations() == [], path
            assert "train-" not in person.text()
        person.open(f"/jobs/{job}/events")
        person.sees("Attempt 1: failed")
        person.sees("Attempt 2: failed")


def test_pages_without_anything_say_so_and_what_to_do(browser: Browser, bare: Platform) -> None:
    with viewer(browser, bare.client(), expects=lambda text: NO_PLACE in text) as person:
        says = {
            "/": "There are no nodes", "/queue": "Nothing waits", "/jobs": "There are no jobs yet",
            "/gpus": "No node has a GPU", "/nodes": "No machine has joined", "/what-if": "There are no pools",
            "/alerts": "There is no alert", "/jobs/zzzz": "There is no job zzzz",
        }  # fmt: skip
        for path, text in says.items():
            person.open(path)
            person.sees(text)
            assert person.violations() == [], path


def test_pages_of_a_server_that_is_gone_keep_what_they_had(browser: Browser, busy: Platform) -> None:
    def broken(route: Route) -> None:
        route.abort("connectionrefused")

    with viewer(browser, busy.client(), expects=lambda text: "ERR_CONNECTION" in text) as person:
        for path in ("/", "/jobs", "/queue", "/nodes", "/gpus"):
            person.page.unroute_all()
            person.open(path)
            before = person.page.locator("main").inner_text()
            person.page.route("**/v1/**", broken)
            person.sees("The server does not answer")
            person.sees("As of")
            assert before.split("\n")[0] in person.text()
            assert person.violations() == [], path
            # And from the beginning: an error, with a way to try again, and no zeros.
            person.page.unroute_all()
            person.page.route(lambda url: "/v1/" in url and "whoami" not in url, broken)
            person.open(path)
            person.page.get_by_role("button", name="Try again").first.wait_for()
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


def test_a_list_of_a_hundred_thousand_draws_what_is_in_sight(browser: Browser, busy: Platform) -> None:
    """The rows are copies of a real one: what a server of that size would answer."""
    client = busy.client()
    all_of_them, size = 100_000, 200
    with viewer(browser, client) as person:
        state = person.page.request.get(f"{person.url}/v1/jobs?limit=1").json()["jobs"][0]

        def answered(route: Route) -> None:
            first = int(dict(part.split("=") for part in route.request.url.split("?")[1].split("&")).get("cursor", "0"))
            rows = [{**state, "id": f"job{at:013d}", "name": f"row {at}"} for at in range(first, first + size)]
            rest = {"waiting": {}, "arrayCounts": {}, "used": {}, "atRisk": [], "mockGpus": []}
            following = str(first + size) if first + size < all_of_them else ""
            route.fulfill(body=json.dumps({"jobs": rows, "cursor": following, **rest}), content_type="application/json")

        person.page.route("**/v1/jobs?limit=200*", answered)
        person.open("/jobs")
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
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("This token is not accepted").wait_for()
    other = client.create_token(role="viewer", tenant="solo", name="another")
    page.get_by_label("API token").fill(other.token)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Jobs").wait_for()
    assert page.url.endswith("/ui/jobs?phase=FAILED")
    page.locator(".me summary").click()
    page.get_by_role("button", name="Log out").click()
    page.get_by_text("You are logged out").wait_for()
    page.goto(link)
    page.get_by_text("This link was used before").wait_for()
    context.close()
