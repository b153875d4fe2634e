"""Job output made safe to show: a job must not be able to control the terminal that shows its log."""

import codecs
import re

# In order: a colour; a string command (title, clipboard, link) up to its end; any other control sequence or escape;
# other control characters. C1 controls count as well: some terminals obey them.
_CONTROL = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]*m)"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|\Z)"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
# An escape that may go on in the next piece.
_UNFINISHED = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x9c]*\Z|(?:\x1b\[|\x9b)[0-?]*[ -/]*\Z|\x1b[ -/]*\Z"
)
_PENDING_MAX = 4096


class TerminalFilter:
    """Keeps text, line ends, tabs, carriage returns and colours; drops everything else that steers a terminal."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pending = ""
        self._coloured = False

    def feed(self, chunk: bytes, *, final: bool = False) -> str:
        text = self._pending + self._decode(chunk, final)
        cut = None if final else _UNFINISHED.search(text)
        # A sequence that never ends is dropped by its first character, so that it cannot hold the output back.
        if cut is not None and len(text) - cut.start() <= _PENDING_MAX:
            text, self._pending = text[: cut.start()], text[cut.start() :]
        else:
            self._pending = ""
        return _CONTROL.sub(self._keep, text)

    def end(self) -> str:
        """What is left, and the end of colours the job left on."""
        return self.feed(b"", final=True) + ("\x1b[0m" if self._coloured else "")

    def _keep(self, match: re.Match[str]) -> str:
        if match["colour"] is None:
            return ""
        self._coloured = True
        return match["colour"]
