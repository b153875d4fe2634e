"""The one place that says how long a job will run. Learns from jobs that ended."""

from ares.core.predict.correct import corrected
from ares.core.predict.estimate import Estimate, stated
from ares.model.job import JobSpec


class Predictor:
    """Owned by the scheduler's picture of the cluster; whoever keeps that up to date also teaches it."""

    def estimate(self, spec: JobSpec, tenant: str, gpu_model: str | None = None) -> Estimate | None:
        """None when nobody can say."""
        return stated(spec, gpu_model)

    def learn(self, spec: JobSpec, tenant: str, ran_s: float) -> None:
        """A job ended by itself after running this long."""

    def corrected(self, estimate_s: float, ran_s: float, limit_s: float | None) -> float:
        """What to plan by once a job has run longer than its estimate."""
        return corrected(estimate_s, ran_s, limit_s)
