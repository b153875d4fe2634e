"""A platform with short timers on which processes are frozen at chosen moments: two replicas, each reaching etcd
through a proxy, nodes that reach both through proxies, and one node that finishes what the others lose."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ares.check.invariants.history import Frozen, Woken, encode
from ares.check.invariants.judge import check
from ares.edge.client.sync import Client
from ares.model.job import JobSpec, RetryPolicy
from ares.model.state import TERMINAL
from ares.model.timing import Timing, broken
from ares.sim.chaos.proxy import Direction, Proxy, ProxyWay
from tests.chaos.load import TINY, marked
from tests.chaos.zombies.recorder import Recorder, now
from tests.history import Acknowledged, audit_commits, judge, read_store
from tests.platform import Platform, eventually, say

# A fifth of the real ones. etcd's leases last two seconds at least, so a leader's is longer here than the rest.
TIMING = Timing(
    renew_every_s=0.9, self_fence_s=1.4, kill_s=0.3, dead_after_s=1.8, scan_every_s=0.1,
    leader_ttl_s=2.0, leader_renew_every_s=0.5,
)  # fmt: skip
assert not broken(TIMING)

LENGTHS = {
    "shorter than T_self": 0.6,
    "T_self to T_dead": 1.6,
    "longer than T_dead": 2.5,
    "longer than the leader's lease": 4.5,
}
REPLICAS = (0, 1)
HEALTHY = "healthy"
# What a busy machine may take for a kill, or a look after it was woken.
SLACK_S = 5.0
DRAIN_S = 180.0


# Appended to what a marked job does: its output begins with its fence.
UPLOADING = r"""
[ "$UPLOAD" -gt 0 ] || exit 0
(echo "$ARES_FENCE"; head -c "$UPLOAD" /dev/zero) > "$ARES_OUTPUT_DIR/out"
"""
UPLOAD_BYTES = 4_000_000
# Slow enough to be met in the middle, and not so slow that renewals come too late behind it.
SLOW = ProxyWay(rate=1_000_000)

# Who is to be frozen, as of now.
Pids = Callable[[], Sequence[int]]


@dataclass
class Case:
    """One job at one point, on one node."""

    name: str
    node: str
    gate: Path
    job: str = ""
    # Bytes of output that it hands over at its end.
    upload: int = 0


@dataclass
class Ground:
    platform: Platform
    recorder: Recorder
    marks: Path
    nodes: Sequence[str]
    stores: dict[int, Proxy]
    # By node and replica.
    links: dict[tuple[str, int], Proxy]
    acknowledged: list[Acknowledged] = field(default_factory=list[Acknowledged])
    # "job fence" of attempts that were frozen with all that could end them.
    frozen: set[str] = field(default_factory=set[str])
    # Points that were really met, and those that a busy machine missed.
    met: Counter[str] = field(default_factory=Counter[str])

    # ---- work

    def case(self, name: str, node: str) -> Case:
        return Case(name, node, self.marks.parent / f"gate-{len(self.acknowledged)}-{name}-{node}".replace(" ", "-"))

    def spec(self, case: Case) -> JobSpec:
        """Runs on its node, or on the one that finishes, until its gate is opened."""
        made = marked(
            self.marks, retry=RetryPolicy(limit=20, base_s=0.1, max_s=0.5), lease_s=TIMING.dead_after_s,
            selector={case.node: "yes"}, grace_s=1.0,
        )  # fmt: skip
        env = {**made.env, "GATE": str(case.gate), "UPLOAD": str(case.upload)}
        return JobSpec(
            command=("sh", "-c", made.command[-1] + UPLOADING), env=env, resources=TINY, retry=made.retry,
            lease_s=made.lease_s, selector=made.selector, grace_s=made.grace_s,
        )  # fmt: skip

    def submit(self, case: Case, client: Client) -> None:
        request = case.gate.name
        case.job = client.submit(self.spec(case), request_id=request).id
        self.acknowledged.append(Acknowledged(request, case.job))

    def run(self, case: Case, client: Client) -> None:
        self.submit(case, client)
        self.until(lambda: self.phase(case) == "RUNNING" and self.fences(case), f"the start of {case}")

    def fences(self, case: Case) -> list[str]:
        return [path.name.partition(".")[2] for path in self.marks.glob(f"{case.job}.*")]

    def phase(self, case: Case) -> str:
        state = self.recorder.states.get(case.job)
        return "" if state is None else state.phase

    @staticmethod
    def until(look: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
        eventually(lambda: bool(look()), what, timeout_s)

    def meet(self, point: str, look: Callable[[], object], case: Case) -> None:
        """Waits until something is under way, or until it is too late for that: agents try elsewhere before long."""
        done = self.phase(case)
        self.until(lambda: look() or self.phase(case) != done, f"{point} of {case}")
        self.met[point if look() else f"missed {point}"] += 1

    # ---- links

    def hold(self, node: str, direction: Direction) -> None:
        for replica in REPLICAS:
            self.links[node, replica].hold(direction)

    def under_way(self, node: str, direction: Direction, *needles: bytes) -> bool:
        held = [self.links[node, replica].waiting(direction) for replica in REPLICAS]
        return any(all(needle in one for needle in needles) for one in held)

    def release(self, node: str) -> None:
        for replica in REPLICAS:
            self.links[node, replica].heal()

    def seat(self, replica: int) -> None:
        """Has every node talk to this replica."""
        for node in (*self.nodes, HEALTHY):
            other = self.links[node, 1 - replica]
            other.door("closed")
            other.reset()
        name = self.platform.servers[replica].name
        for node in (*self.nodes, HEALTHY):
            self.until(lambda node=node: self.recorder.leases[node].replica == name, f"{node} at {name}")
        for node in (*self.nodes, HEALTHY):
            self.links[node, 1 - replica].door("open")

    # ---- freezing

    def freeze(self, who: str, pids: Pids, length_s: float, before_wake: Callable[[], None]) -> None:
        """For so long. What is let go right before the wake finds them frozen."""
        stopped: list[int] = []
        try:
            # Parents first, again and again: one that was not stopped yet may have started another.
            while new := [pid for pid in pids() if pid not in stopped]:
                stopped += new
                for pid in new:
                    told(pid, signal.SIGSTOP)
            self.recorder.note(Frozen(t=now(), who=who))
            # The fault itself, not a wait for something.
            time.sleep(length_s)
            before_wake()
        finally:
            self.recorder.note(Woken(t=now(), who=who))
            # Jobs first: what may no longer run gets its chance to do harm.
            for pid in reversed(stopped):
                told(pid, signal.SIGCONT)

    def machine(self, node: str) -> list[int]:
        """The agent and everything it started, parents first."""
        return tree(self.platform.agents[node].pid)

    def processes_of(self, job: str) -> list[int]:
        return [pid for pid, who in self.platform.job_processes().items() if who.startswith(f"{job} ")]

    # ---- rounds

    def leader(self) -> int:
        """Which replica leads, by the store and by its own word."""
        servers = self.platform.servers

        def leading() -> list[int]:
            return [
                n for n, s in servers.items() if s.name == self.recorder.leader and s.checks().get("leading") == "yes"
            ]

        return eventually(leading, "an agreement on who leads")[0]

    def ready(self, client: Client) -> None:
        """Everybody is there, and only the nodes that will be frozen take work."""
        self.until(
            lambda: {one.name for one in client.nodes() if one.ready} == {*self.nodes, HEALTHY},
            "every node's return",
            DRAIN_S,
        )
        client.cordon(HEALTHY)

    def finish(self, cases: Sequence[Case]) -> None:
        for case in cases:
            case.gate.touch()
        for case in cases:
            self.until(lambda case=case: self.phase(case) in TERMINAL, f"the end of {case}", DRAIN_S)
            assert self.phase(case) == "SUCCEEDED", f"{case}: {self.recorder.states[case.job]}"
            if case.upload:
                self.check_output(case)
        self.until(lambda: not any(s.lingering for s in self.recorder.states.values()), "the release of all", DRAIN_S)

    def check_output(self, case: Case) -> None:
        """What is visible is what the attempt with the last fence handed over, whole."""
        found = b"".join(self.platform.client().output(case.job, "out"))
        fence = f"{self.recorder.states[case.job].fence}\n".encode()
        assert found.startswith(fence), f"{case}: output of {found[:20]!r}, committed was {fence!r}"
        assert len(found) == len(fence) + case.upload, f"{case}: {len(found)} bytes"

    def upload(self, case: Case) -> None:
        """Returns in the middle of it."""
        proxies = [self.links[case.node, replica] for replica in REPLICAS]
        for proxy in proxies:
            proxy.carry(tx=SLOW)
        before = sum(proxy.carried["tx"] for proxy in proxies)
        case.gate.touch()
        self.meet("upload", lambda: sum(p.carried["tx"] for p in proxies) - before > case.upload / 8, case)

    def refusals(self, job: str) -> list[str]:
        """Lines in which replicas say that they refused a report about the job."""
        logs = [server.log.read_text(errors="replace") for server in self.platform.servers.values()]
        return [line for log in logs for line in log.splitlines() if "report.refused" in line and job in line]

    # ---- judgement

    def judge(self, directory: Path) -> None:
        assert not self.platform.job_processes(), "a job's process is left"
        for process in (*self.platform.agents.values(), *self.platform.servers.values()):
            process.kill()
        seen = judge(self.acknowledged, read_store(self.platform.store_url), self.marks, self.frozen)
        commits = audit_commits(self.platform.store_url)
        self.recorder.catch_up()
        events = self.recorder.history(self.marks, TIMING, slack_s=SLACK_S)
        (directory / "history.jsonl").write_bytes(encode(events))
        verdict = check(events)
        say(f"met {dict(self.met)}")
        say(f"judged {commits} commits; {dict(seen)}; {verdict.counts}")
        assert not verdict.violations, "\n".join(str(one) for one in verdict.violations)
        # E9 is only asked when something acts after its fence was taken away; mostly nothing gets to.
        for rule in ("E4", "E5", "E18"):
            assert verdict.counts[rule], f"{rule} was never put to the test"


def told(pid: int, number: signal.Signals) -> bool:
    """Whether the process was still there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


@contextmanager
def ground(directory: Path, nodes: Sequence[str]) -> Generator[Ground]:
    with ExitStack() as stack:
        platform = stack.enter_context(Platform(directory / "platform", "etcd", warm=True))
        assert platform.etcd is not None
        recorder = stack.enter_context(Recorder(platform.store_url))
        timing = {f"ARES_TIMING__{name.upper()}": str(getattr(TIMING, name)) for name in TIMING.__struct_fields__}
        stores = {n: stack.enter_context(Proxy(platform.etcd.endpoint)) for n in REPLICAS}
        for n in REPLICAS:
            platform.server(n, store=f"etcd://{stores[n].address}", env=timing, wait=n == 0)
        links = {
            (node, n): stack.enter_context(Proxy(platform.servers[n].agents))
            for node in (*nodes, HEALTHY)
            for n in REPLICAS
        }
        for node in (*nodes, HEALTHY):
            labels = f"{node}=yes" if node != HEALTHY else ",".join(f"{one}=yes" for one in nodes)
            servers = [links[node, n].address for n in REPLICAS]
            platform.agent(node, servers=servers, wait=False, env={"ARES_NODE__LABELS": labels})
        eventually(platform.servers[1].ready, "readiness of the second replica", DRAIN_S)
        marks = directory / "marks"
        marks.mkdir()
        yield Ground(platform, recorder, marks, nodes, stores, links)
