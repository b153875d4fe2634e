"""`make oracles`: what the platform decides, writes and says, against what was recorded."""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

from oracles import contracts, histories, platform, replays
from oracles.recording import Comparison, NotComparable, Oracle, compare, record

# The quick ones first.
ORACLES: Mapping[str, Oracle] = {
    "openapi": contracts.openapi,
    "help": contracts.helps,
    "store": platform.store,
    "cli": platform.commands,
    "replays": replays.replays,
    "histories": histories.histories,
    "mutants": contracts.mutants,
}
_SHOWN_MAX = 5
# What else would decide: the order of sets, which only a new process can have fixed; the time zone; a terminal's width.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "TZ": "UTC", "COLUMNS": "120", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}


def main() -> int:
    asked = _arguments()
    if asked.write_store:
        platform.write()
        return 0
    print(f"{'ORACLE':<12}{'PARTS':>6}{'SECONDS':>9}  VERDICT", flush=True)
    bad = [name for name in asked.only or ORACLES if not _judged(name, asked.record, asked.keep)]
    if bad:
        print(f"\nnot as recorded: {', '.join(bad)}", file=sys.stderr)
    return int(bool(bad))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m oracles", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=ORACLES, help="These alone.")
    parser.add_argument("--record", action="store_true", help="Record what is so now, instead of comparing.")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="Write whole decision logs there, to compare two.")
    parser.add_argument("--write-store", action="store_true", help="Make the recorded store anew, by a real platform.")
    return parser.parse_args()


def _judged(name: str, recording: bool, keep: Path | None) -> bool:
    began = time.monotonic()
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    try:
        parts = list(ORACLES[name](keep))
        if recording:
            record(name, parts)
        found = compare(name, parts)
    except NotComparable as why:
        print(f"{name:<12}{'-':>6}{'-':>9}  NOT COMPARED: {why}", flush=True)
        return False
    except Exception as error:
        # The others are judged all the same.
        traceback.print_exc()
        print(f"{name:<12}{'-':>6}{'-':>9}  NOT COMPARED: it failed, see above: {error}", flush=True)
        return False
    _print(name, found, time.monotonic() - began, "recorded" if recording else "equal")
    return not found.differences


def _print(name: str, found: Comparison, took_s: float, good: str) -> None:
    count = len(found.differences)
    verdict = f"DIFFERS in {count} of {found.parts} parts" if count else good
    print(f"{name:<12}{found.parts:>6}{took_s:>9.1f}  {verdict}", flush=True)
    for difference in found.differences[:_SHOWN_MAX]:
        print(f"  {difference}", flush=True)
    if count > _SHOWN_MAX:
        print(f"  ... and {count - _SHOWN_MAX} more", flush=True)


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in _ENVIRONMENT.items()):
        again = [sys.executable, "-m", "oracles", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, **_ENVIRONMENT})
    sys.exit(main())
