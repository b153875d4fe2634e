"""Why a run cannot begin."""


class CannotRun(Exception):
    """Nothing was broken yet. `fix` says what to do."""

    exit_code = 2

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.fix = fix
