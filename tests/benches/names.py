"""Names that keep tests apart on a server that they share."""

import itertools
import re
import uuid


class Names:
    """Topics, groups and a key prefix that no other test uses."""

    def __init__(self, test: str) -> None:
        words = re.sub(r"[^a-zA-Z0-9]+", "-", test).strip("-")[:60]
        self.prefix = f"{words}-{uuid.uuid4().hex[:8]}"
        self._numbers = itertools.count(1)

    def topic(self) -> str:
        return f"{self.prefix}-t{next(self._numbers)}"

    def group(self) -> str:
        return f"{self.prefix}-g{next(self._numbers)}"
