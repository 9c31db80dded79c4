"""Two commands at once on one home: it ends as if one had run after the other, or as if the refused command had not."""

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trials import home_life
from trials.documents import different
from trials.home_life import Commands, Step

_INDEXED = ("first index", "calibrate", "index again")
"""Steps that make the home on which pairs begin."""
_OF_COLLECTION = ("calibrate", "index again", "delete", "encode again", "roll back", "rebuild", "delete all")


class Pairs:
    """Pairs of commands on copies of one home."""

    def __init__(self, scratch: Path, folder: Path, first: Commands, second: Commands) -> None:
        self._scratch, self._folder, self._first, self._second = scratch, folder, first, second
        steps = {step.name: step for step in home_life.steps(folder, scratch, first)}
        folder.mkdir()
        for name in (*_INDEXED, "rebuild"):  # so that there is a generation to roll back to
            self._done(steps[name])
        shutil.copytree(folder, scratch / "begin")
        wide, narrow = str(scratch / "cr5"), str(scratch / "narrow")  # the home has the narrow encoder by now
        self.steps = [
            Step(name, [wide if part == narrow else part for part in steps[name].command]) for name in _OF_COLLECTION
        ]
        self._ends: dict[tuple[str, ...], tuple[tuple[bool, ...], dict[str, Any]]] = {}
        self.seconds = {step.name: self._timed(step) for step in self.steps}

    def _done(self, step: Step) -> None:
        if self._first.run(step.command):
            raise RuntimeError(f"{step.name} failed: {self._first.said()}")

    def _begin(self) -> None:
        shutil.rmtree(self._folder)
        shutil.copytree(self._scratch / "begin", self._folder)

    def _timed(self, step: Step) -> float:
        self._begin()
        begun = time.monotonic()
        self._first.run(step.command)
        return time.monotonic() - begun

    def _end(self, *order: Step) -> tuple[tuple[bool, ...], dict[str, Any]]:
        """Which of the steps succeed one after the other, and what they leave."""
        names = tuple(step.name for step in order)
        if names not in self._ends:
            self._begin()
            succeeded = tuple(not self._first.run(step.command) for step in order)
            self._ends[names] = succeeded, home_life.state(self._folder)
        return self._ends[names]

    def attempt(self, one: Step, other: Step, delay: float) -> str:
        """Start the other step so many seconds after the one; returns what fell, empty if nothing."""
        self._begin()
        self._first.start(one.command)
        time.sleep(delay)
        self._second.start(other.command)
        succeeded = (not self._first.status(), not self._second.status())
        what = f"{one.name} and, {delay:.2f} s later, {other.name}, which ended well: {succeeded}"
        try:
            state = home_life.state(self._folder)
        except Exception as error:  # noqa: BLE001 - it is what fell
            return f"{what}: {error!r}"
        done = [step for step, well in zip((one, other), succeeded, strict=True) if well]
        orders = [(self._end(one, other), succeeded), (self._end(other, one), succeeded[::-1])]
        ends = [end for (which, end), same in orders if which == same] + [self._end(*done)[1]] * (len(done) < 2)
        if state in ends:
            return ""
        keys = min((different(end, state) for end in ends), key=len)
        return f"{what}: {len(keys)} differ from the nearest order: {keys[:3]}; {self._second.said()}"


def pairs(folder: Path, tries: int, *, seed: int = 0) -> Iterator[str]:
    """Run each pair of commands in turn, the second after a random delay; yields what fell in each try."""
    scratch, chance = folder / "scratch", random.Random(seed)
    scratch.mkdir()
    with Commands(scratch / "log") as first, Commands(scratch / "log") as second:
        trial = Pairs(scratch, folder / "home-of-two", first, second)
        both = [(one, other) for one in trial.steps for other in trial.steps]
        for number in range(tries):
            one, other = both[number * 5 % len(both)]
            yield trial.attempt(one, other, chance.uniform(0.0, 1.2 * trial.seconds[one.name]))
