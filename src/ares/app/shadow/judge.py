"""The judging process: replays the jobs that came under two profiles, and ends with the server that asked.

`python -m ares.app.shadow.judge`; started by `ares server`, never by hand.
"""

import resource

from ares.app import plugins
from ares.app.planner import begin, serve
from ares.sim.tune.shadow import judge

# It only has what no other process wants, and no more than this: a replay of a few thousand jobs takes a tenth.
_NICE = 19
_MEMORY_MAX = 4 << 30
_CPU_S_MAX = 3600


def main() -> int:
    answers = begin(_NICE)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_MAX, _MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S_MAX, _CPU_S_MAX))
    # A profile may name them.
    plugins.load()
    return serve(answers, judge)


if __name__ == "__main__":
    raise SystemExit(main())
