"""Places where the kill matrix may park the agent; off unless a test makes the folder."""

from __future__ import annotations

import os
import time

from workers.agent.files import read_text


class Failpoints:
    """A file named after a point, holding `park` or `park <key>`, holds whoever comes by until it is gone."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def armed(self, name: str, key: str) -> bool:
        """True when this point would park this key."""
        words = read_text(os.path.join(self._folder, name)).split()
        return words[:1] == ["park"] and (len(words) == 1 or words[1] == key)

    def reach(self, name: str, key: str) -> None:
        """Note the hit and wait, without a bound, until the file is gone."""
        if not self.armed(name, key):
            return
        with open(os.path.join(self._folder, name + ".hit"), "w") as file:
            file.write(key)
        while self.armed(name, key):
            time.sleep(0.02)
