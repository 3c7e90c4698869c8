"""The window's menus: models to chat with, and the views of the page. Plain data, which `view` draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from localllm.types.states import AvailableModel

DEMO = "demo"
MOST_MODELS = 30
"""Maximum number of models in the menu; the page lists all."""


class Item(NamedTuple):
    """An item of a menu; without `act`, a separator."""

    title: str = ""
    act: Callable[[], None] | None = None


class Menu(NamedTuple):
    """A menu of the menu bar."""

    title: str
    items: Sequence[Item]


def models_menu(
    available: Iterable[AvailableModel],
    *,
    choose: Callable[[str], None],
    unload_all: Callable[[], None],
    show_models: Callable[[], None],
) -> Menu:
    """The installed models, except those with a problem, which only the page lists.

    The menu is drawn once, so it shows nothing that changes while the window is open.
    """
    usable = sorted(model.id for model in available if model.problem is None)
    items = [Item(id, _with(choose, id)) for id in dict.fromkeys([*usable[:MOST_MODELS], DEMO])]
    return Menu("Models", [*items, Item(), Item("Unload all", unload_all), Item("Find and remove", show_models)])


def view_menu(show: Callable[[str], None], reload: Callable[[], None]) -> Menu:
    """The views of the page."""
    views = [Item(title, _with(show, name)) for title, name in (("Chat", "chat"), ("Machine", "machine"))]
    return Menu("View", [*views, Item(), Item("Reload", reload)])


def _with(act: Callable[[str], None], argument: str) -> Callable[[], None]:
    return lambda: act(argument)
