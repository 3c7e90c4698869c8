"""Plots: beats in a fixed order, each told in one of several ways, and questions about them."""

from __future__ import annotations

from dataclasses import dataclass

from .data import read


@dataclass(frozen=True, slots=True)
class Beat:
    """A step of a story, and the ways to tell it."""

    ways: list[str]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """The course of a story. All texts are templates with the slots of a cast."""

    name: str
    who: str
    """What a user's beginning may say about the hero: `there was a fox who ...`."""
    wish: str
    """What a user may request: `a story about a fox who ...`."""
    key: str
    """A word that occurs in every such story."""
    topics: tuple[str, ...]
    title: str
    lesson: str
    text: str
    """A line with `- `, or `+ ` if optional, begins a beat; each line is one way to tell it.

    The first beat tells what `who` says.
    """
    thing: bool = False
    """Whether the plot is about the thing."""
    helper: bool = False
    """Whether the friend helps the hero."""
    asks: tuple[str, ...] = ()
    """Names of its questions, besides those that apply to every story."""

    @property
    def beats(self) -> list[Beat]:
        """The story's steps."""
        beats: list[Beat] = []
        for line in filter(None, self.text.splitlines()):
            if line[0] in "-+":
                beats.append(Beat([], optional=line[0] == "+"))
            beats[-1].ways.append(line[2:])
        return beats


def read_plots(name: str) -> list[Plot]:
    """Those of one data file."""
    return [
        Plot(
            **{key: each.text(key) for key in ("name", "who", "wish", "key", "title", "lesson", "text")},
            topics=each.texts("topics"),
            thing=each.get("thing", False),
            helper=each.get("helper", False),
            asks=each.get("asks", ()),
        )
        for each in read(name).tables("plot")
    ]
