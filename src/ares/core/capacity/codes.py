"""Small numbers for texts that many rows carry."""

from collections import Counter


class Codes:
    """Small numbers for texts: equal texts, equal numbers. 0 stands for none. A number that no row carries any more is
    given to another text: nodes may change their labels as often as they like."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self._texts: dict[int, str] = {}
        self._uses: Counter[int] = Counter()
        self._unused: list[int] = []

    def __len__(self) -> int:
        return len(self._of)

    def of(self, text: str | None) -> int:
        """The text's number; one more row carries it."""
        if text is None:
            return 0
        number = self._of.get(text)
        if number is None:
            number = self._of[text] = self._unused.pop() if self._unused else len(self._of) + 1
            self._texts[number] = text
        self._uses[number] += 1
        return number

    def back(self, number: int) -> bool:
        """One row less carries it; whether that was the last one."""
        if not number:
            return False
        self._uses[number] -= 1
        if self._uses[number]:
            return False
        del self._of[self._texts.pop(number)], self._uses[number]
        self._unused.append(number)
        return True

    def known(self, text: str) -> int:
        """The text's number; -1 when no row carries it."""
        return self._of.get(text, -1)
