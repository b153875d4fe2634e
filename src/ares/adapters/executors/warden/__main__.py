"""Starts the warden without importing the packages around it: parents become empty stand-ins."""

import os
import sys

_PACKAGE = "ares.adapters.executors.warden"


def _stand_in() -> None:
    names = _PACKAGE.split(".")
    for end in range(1, len(names) + 1):
        module = type(sys)(".".join(names[:end]))
        module.__path__ = []
        sys.modules[module.__name__] = module
    sys.modules[_PACKAGE].__path__ = [os.path.dirname(os.path.abspath(__file__))]


def _run() -> None:
    from ares.adapters.executors.warden.supervisor import main

    main()


_stand_in()
_run()
