"""What is lost with an evicted job: the work since its last checkpoint, in GPU-seconds."""

from ares.core.schedule.preempt.holders import EvictionCandidate

# So many CPUs are worth one GPU, for jobs that hold no accelerator.
CPUS_PER_GPU = 32
# What one device of a kind is worth in thousandths of a GPU: the first prefix that fits decides.
DEVICE_MILLI: tuple[tuple[str, int], ...] = (
    ("mig-1g", 143), ("mig-2g", 286), ("mig-3g", 429), ("mig-4g", 571), ("", 1000),
)  # fmt: skip


def lost_gpu_ms(holder: EvictionCandidate) -> int:
    """An integer, so that sums do not depend on their order."""
    milli = holder.gpus_milli
    for _, freed in holder.at:
        for kind, count in freed.devices:
            milli += count * next(worth for prefix, worth in DEVICE_MILLI if kind.startswith(prefix))
    return round((milli or holder.cpu_milli / CPUS_PER_GPU) * holder.since_checkpoint_s)


def lost_gpu_s(holder: EvictionCandidate) -> float:
    return lost_gpu_ms(holder) / 1000
