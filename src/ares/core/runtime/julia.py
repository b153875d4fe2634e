"""Julia's Distributed: the program on the first rank, and workers of it, begun before, on each other rank.

Written by Julia's manual and tried with a stand-in that speaks the protocol of its workers: see the guide.
"""

import hashlib

from ares.core.refusal import Refusal
from ares.core.runtime.kind import Runtime, RuntimePlan, refused
from ares.core.runtime.processes import procs_of, threads
from ares.core.runtime.verdict import root_of
from ares.model.job import JobSpec, RuntimeWish
from ares.model.link import Start

# Julia's Distributed sends so much of it, always.
_COOKIE_CHARS = 16
# Read by the first rank's Julia before the program: the workers of the other ranks become its own.
_MANAGER = """\
using Distributed

struct AresManager <: Distributed.ClusterManager end

function Distributed.launch(::AresManager, params::Dict, launched::Array, changed::Condition)
    for line in eachline(ENV["ARES_RANKS_FILE"])
        words = split(line)
        for port in words[3:end]
            config = Distributed.WorkerConfig()
            config.host = String(words[2])
            config.port = parse(Int, port)
            push!(launched, config)
        end
    end
    notify(changed)
end

# Workers live and die with their rank: the platform ends them.
Distributed.manage(::AresManager, id::Integer, config::Distributed.WorkerConfig, op::Symbol) = nothing

Distributed.cluster_cookie(strip(read(ENV["ARES_JULIA_COOKIE"], String)))
Distributed.addprocs(AresManager())
"""
# The cookie is on no command line. $0 is Julia.
_WORKER = 'exec "$0" --worker --bind-to "$1" < "$2"'
# $0 is the manager's file, and $1 the job's Julia.
_PROGRAM = 'julia=$1; shift; exec "$julia" -L "$0" "$@"'


def _admit(spec: JobSpec, wish: RuntimeWish) -> Refusal | None:
    if wish.elastic or (spec.gang is not None and spec.gang.min_ranks is not None):
        message = "Julia's workers are those it began with, and the job asks for an elastic gang"
        return refused(message, "leave out gang.minRanks and runtime.elastic")
    if not spec.command[0].rpartition("/")[2].startswith("julia"):
        message = f"the command begins with {spec.command[0][:100]!r}: the first rank runs it by Julia"
        return refused(message, "begin the command with julia, as in: julia --project=. main.jl")
    return None


def _plan(start: Start, wish: RuntimeWish) -> RuntimePlan:
    procs = procs_of(start, wish)
    cookie = hashlib.sha256(f"julia {start.key}".encode()).hexdigest()[:_COOKIE_CHARS]
    return RuntimePlan(
        launcher=("sh", "-c", _PROGRAM, "@FOLDER@/ares.jl"),
        meets=True,
        service=("sh", "-c", _WORKER, start.spec.command[0], "@OWN@:@EACH@", "@FOLDER@/cookie"),
        service_stays=True,
        ports=procs,
        procs=procs,
        files={"ares.jl": _MANAGER, "cookie": f"{cookie}\n"},
        env={"ARES_JULIA_COOKIE": "@FOLDER@/cookie", **threads(start, procs)},
    )


JULIA = Runtime(_admit, _plan, root_of)
