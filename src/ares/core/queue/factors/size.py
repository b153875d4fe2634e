"""How wide the job is, as far as it has waited: 1 for half of the cluster or more after `ageing_s`.

By the resource it asks most of. Small jobs find gaps, wide ones have to be first; beside a job of half the cluster
there is no room for another one like it, so wider counts no more than that. It grows with the waiting time, so that a
wide job that just came passes no narrower one that has waited for hours. A job of one GPU, or of one CPU, waits for
one other to end, as any job would: it is not wide, however small the cluster.
"""

import numpy as np

from ares.core.queue.factors.factor import ClassFacts, Floats, JobFacts
from ares.core.queue.shares import Shares
from ares.model.profile import OrderPolicy

_WIDEST = 0.5


def size(facts: JobFacts, shares: Shares, order: OrderPolicy, now: float) -> float:
    ask, waited = facts.ask, (now - facts.submitted_at) / order.ageing_s
    if waited <= 0.0 or facts.width <= 1.0:
        return 0.0
    part = ask.ranks * shares.part(ask.cpu_milli, ask.memory_mib, ask.gpus_milli) / _WIDEST
    return min(1.0, waited) * min(1.0, part)


def sizes(facts: ClassFacts, shares: Shares, order: OrderPolicy, now: float) -> Floats:
    waited = (now - facts.submitted_at) / order.ageing_s
    cpu: Floats
    memory: Floats
    gpu: Floats
    cpu, memory, gpu = facts.amounts
    wide = np.where(gpu > 0.0, gpu, cpu) * facts.ranks > 1000.0
    part = facts.ranks * shares.parts(cpu, memory, gpu) / _WIDEST
    return np.where(wide, np.clip(waited, 0.0, 1.0) * np.minimum(1.0, part), 0.0)
