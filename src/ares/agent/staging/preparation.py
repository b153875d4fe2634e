"""What an attempt needs on its node before it starts: files, image, Python environment, inputs, checkpoint."""

import msgspec
import structlog

from ares.agent.attempts.attempt import Attempt
from ares.agent.staging.environments import Environments
from ares.agent.staging.images import Images
from ares.agent.staging.inputs import StagedInputs
from ares.agent.staging.restorer import Restorer
from ares.agent.staging.stager import Stager, StagingFailed
from ares.agent.staging.unpack import NotWanted
from ares.model.job import JobSpec
from ares.model.link import Start
from ares.ports.executor import Launch

_log = structlog.get_logger(__name__)


def _reads(spec: JobSpec) -> bool:
    return bool(spec.inputs) and any(given.from_ is not None for given in spec.inputs)


class Preparation:
    """One for all attempts of a node. Its parts are None where there can be none."""

    def __init__(
        self,
        stager: Stager | None,
        images: Images | None,
        environments: Environments | None = None,
        inputs: StagedInputs | None = None,
        restorer: Restorer | None = None,
    ) -> None:
        self._stager = stager
        self._restorer = restorer
        self._images = images
        self._environments = environments
        self._inputs = inputs

    @staticmethod
    def needed(start: Start) -> bool:
        spec = start.spec
        if spec.project is not None or spec.image is not None or spec.python is not None:
            return True
        return start.checkpoint is not None or _reads(spec)

    async def prepare(self, attempt: Attempt, launch: Launch) -> Launch:
        """The launch with all that the attempt asked for. Raises StagingFailed, and NotWanted when it is to end;
        nothing else, for an attempt without an end would hold its place."""
        try:
            return await self._prepared(attempt, launch)
        except (StagingFailed, NotWanted):
            raise
        except Exception as error:
            _log.error("attempt.not_prepared", job=attempt.start.ref.job, error=repr(error), exc_info=error)
            raise StagingFailed(f"it could not be prepared: {error!r}") from None

    async def _prepared(self, attempt: Attempt, launch: Launch) -> Launch:
        start = attempt.start
        if start.spec.project is not None:
            if self._stager is None:
                raise StagingFailed("this node cannot fetch the files of a project")
            await self._stager.stage(start, attempt.folder.work, launch.uid, lambda: not attempt.fenced)
        if start.spec.image is not None:
            if self._images is None:
                raise StagingFailed("this node runs no images")
            layer, uid = attempt.folder.layer, launch.uid
            attempt.image = await self._images.stage(start, layer, uid, lambda: not attempt.fenced)
            launch = attempt.image.dress(launch, start.spec)
        if start.spec.python is not None:
            if self._environments is None:
                raise StagingFailed("this node has no Python environments")
            launch = await self._environments.dress(attempt, launch)
        if _reads(start.spec):
            if self._inputs is None:
                raise StagingFailed("this node cannot fetch datasets")
            launch = await self._inputs.dress(attempt, launch)
        if start.checkpoint is not None:
            if self._restorer is None:
                raise StagingFailed("this node cannot fetch checkpoints")
            launch = await self._restorer.restore(attempt, launch)
        return msgspec.structs.replace(launch, deadline=attempt.deadline)

    def ended(self, attempt: Attempt) -> None:
        """No process of the attempt is left."""
        if attempt.image is not None:
            attempt.image.release()
            attempt.image = None
        if self._environments is not None:
            self._environments.release(attempt)
        if self._inputs is not None:
            self._inputs.release(attempt)
