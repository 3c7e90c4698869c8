"""Short stories on request, continuations of beginnings, and questions about the last story."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from .data import read
from .grammar import Check, Example, Generator, Split, assistant, mentions, mentions_one_of, say, user
from .story_cast import Cast, Wanted, cast_for
from .story_parts import THINGS, Thing, a
from .story_plot import Beat, Plot, read_plots
from .story_questions import BY_PLOT, COMMON, Question
from .story_wishes import ABOUT_ME, ANOTHER, MOODS, REQUESTS, REQUESTS_ABOUT, STARTS, WRAPPERS

_DATA = read(__name__)

PLOTS = [plot for about in ("things", "deeds", "feelings") for plot in read_plots(f"story_plots_{about}")]
_BY_NAME = {plot.name: plot for plot in PLOTS}

OPENINGS = _DATA.texts("openings")
CLOSINGS = _DATA.texts("closings")
GOOD_NIGHT = _DATA.texts("good_night")


def _tell(rng: random.Random, beats: Sequence[Beat], slots: Cast) -> str:
    """One way to tell these beats, as one paragraph."""
    return " ".join(say(rng, rng.choice(beat.ways), **slots) for beat in beats)


def _tell_to_the_end(rng: random.Random, beats: Sequence[Beat], slots: Cast, most: int, closing: Sequence[str]) -> str:
    """Tell them in at most so many words, if omitting optional beats suffices; ends with a full stop."""
    text = ""
    for keep in (0.6, 0.5, 0.4, 0.3, 0.2, 0.1, *(0.0,) * 8):
        text = _tell(rng, [beat for beat in beats if not beat.optional or rng.random() < keep], slots)
        if closing or text.endswith('"') or rng.random() < 0.15:
            text += " " + say(rng, rng.choice(closing or CLOSINGS), **slots)
        if len(text.split()) <= most:
            break
    return text


def _story(rng: random.Random, plot: Plot, slots: Cast, closing: tuple[str, ...] = ()) -> str:
    """A whole story of 90 to 150 words."""
    return _tell_to_the_end(rng, [Beat(list(OPENINGS)), *plot.beats], slots, 150, closing)


def _is_story(*words: str, at_least: int = 70) -> Check:
    """The answer is long enough, ends with a full stop, and has these words."""
    has = mentions(*words)
    return lambda answer: (
        len(answer.split()) >= at_least and answer.rstrip().endswith(".") and _has_loosely(answer, has)
    )


def _has_loosely(answer: str, has: Check) -> bool:
    """Whether the words occur, ignoring a possessive `'s`."""
    return has(re.sub(r"'s\b", "", answer))


def _names_someone_twice(answer: str) -> bool:
    """A name (a capitalized word within a sentence) that occurs again."""
    names = re.findall(r"(?<=[a-z,] )[A-Z][a-z]+", answer)
    return any(len(re.findall(rf"\b{name}\b", answer)) >= 2 for name in names)


def _is_any_story(answer: str) -> bool:
    """The answer is long enough, ends with a full stop, and has a character in it."""
    return _is_story()(answer) and _names_someone_twice(answer)


def _fits(plot: Plot, thing: Thing | None) -> bool:
    """Whether the plot can be about this thing."""
    if thing is None:
        return True
    return plot.thing and (plot.name != "mistake" or bool(thing.harm)) and (plot.name != "stuck" or thing.light)


def _any_plot(rng: random.Random, thing: Thing | None = None) -> Plot:
    return rng.choice([plot for plot in PLOTS if _fits(plot, thing)])


def _cast(rng: random.Random, plot: Plot, wanted: Wanted | None = None) -> Cast:
    """A cast for the plot."""
    things = [thing for thing in THINGS if _fits(plot, thing)] or list(THINGS)
    return cast_for(rng, wanted or Wanted(), things)


Wish = tuple[str, Plot, Cast, tuple[str, ...]]
"""The user's wish, a plot and cast that fulfil it, and words that the story must have."""


def _wish_hero(rng: random.Random) -> Wish:
    plot = _any_plot(rng)
    slots = _cast(rng, plot)
    form = rng.choice(("{a_kind}", "{a_kind}", "{a_kind}", "{a_hero}", "{a_hero}", "{kinds}", "the {kind}"))
    return say(rng, form, **slots), plot, slots, (slots["kind"],)


def _wish_name(rng: random.Random) -> Wish:
    plot = _any_plot(rng)
    slots = _cast(rng, plot)
    form = rng.choice(
        (
            "{a_kind} [named|called|with the name] {hero}",
            "{a_hero} [named|called] {hero}",
            "{hero} the {kind}",
            "{hero}, {a_hero}",
            "{a_kind} whose name is {hero}",
        )
    )
    return say(rng, form, **slots), plot, slots, (slots["kind"], slots["hero"])


def _wish_only_name(rng: random.Random) -> Wish:
    plot = _any_plot(rng)
    slots = _cast(rng, plot)
    return say(rng, "[{hero}|someone called {hero}|somebody named {hero}]", **slots), plot, slots, (slots["hero"],)


def _wish_thing(rng: random.Random) -> Wish:
    thing = rng.choice(THINGS)
    plot = _any_plot(rng, thing)
    slots = cast_for(rng, Wanted(), [thing])
    with_hero = rng.choice(
        (
            "{a_kind} and {a_thing}",
            "{a_kind} and {a_thing}",
            "{a_kind} [with|who has|that has] {a_thing}",
            "{a_thing} and {a_kind}",
            "{a_kind} and {a_noun}",
            "{a_hero} and {a_thing}",
            "{a_kind} and {his} {thing}",
        )
    )
    if rng.random() < 0.6:
        return say(rng, with_hero, **slots), plot, slots, (slots["kind"], slots["noun"])
    alone = "[{a_thing}|{a_noun}|the {thing}|{a_noun} and a friend]"
    return say(rng, alone, **slots), plot, slots, (slots["noun"],)


def _wish_place(rng: random.Random) -> Wish:
    plot = _any_plot(rng)
    slots = _cast(rng, plot)
    if rng.random() < 0.6:
        form = "{a_kind} [{in_place}|{at}|who lives {in_place}|that lives {in_place}]"
        return say(rng, form, **slots), plot, slots, (slots["kind"], slots["place"])
    return say(rng, "[the {place}|{a_place}|life {in_place}]", **slots), plot, slots, (slots["place"],)


def _wish_two(rng: random.Random) -> Wish:
    plot = _any_plot(rng)
    slots = _cast(rng, plot)
    form = "[{a_kind} and {a_fkind}|{a_kind} and {his} friend, {a_fkind}|{a_kind} who meets {a_fkind}]"
    if rng.random() < 0.3:
        form = "[{hero} and {friend}|two friends named {hero} and {friend}|two friends, {hero} and {friend}]"
        return say(rng, form, **slots), plot, slots, (slots["hero"], slots["friend"])
    return say(rng, form, **slots), plot, slots, (slots["kind"], slots["fkind"])


def _wish_deed(rng: random.Random) -> Wish:
    plot = _any_plot(rng)
    slots = _cast(rng, plot)
    whose = "[{a_kind}|{a_kind}|{a_hero}|{a_kind} named {hero}] who " + plot.wish
    return say(rng, whose, **slots), plot, slots, (slots["kind"], say(rng, plot.key, **slots))


def _wish_topic(rng: random.Random) -> Wish:
    plot = _any_plot(rng)
    slots = _cast(rng, plot)
    topic = rng.choice(plot.topics)
    if rng.random() < 0.3:
        return say(rng, "{a_kind} and " + topic, **slots), plot, slots, (slots["kind"],)
    return topic, plot, slots, ()


WISHES: tuple[Callable[[random.Random], Wish], ...] = (
    *(_wish_hero,) * 3,
    *(_wish_name,) * 2,
    _wish_only_name,
    *(_wish_thing,) * 3,
    *(_wish_place,) * 2,
    *(_wish_two,) * 2,
    *(_wish_deed,) * 3,
    *(_wish_topic,) * 2,
)


def _a_story(rng: random.Random) -> str:
    """The user's words for what is wanted."""
    return say(rng, rng.choice(("a story", "a story", "a [short|little|nice|good|small] story", "a [tale|short tale]")))


def _ask_without_wish(rng: random.Random, split: Split) -> tuple[str, str, Check]:
    """A request for any story, perhaps of some mood, the story, and its check."""
    plot = _any_plot(rng)
    closing: tuple[str, ...] = ()
    if rng.random() < 0.4:
        mood = rng.choice(MOODS)
        plot, closing = _BY_NAME[rng.choice(mood.plots)], GOOD_NIGHT if mood.night else ()
        asked = REQUESTS.say(rng, split, a_story=f"{a(say(rng, mood.words))} story", tail="")
    elif rng.random() < 0.35:
        asked = ANOTHER.say(rng, split)
    else:
        asked = REQUESTS.say(rng, split, a_story=_a_story(rng), tail="")
    if plot.name == "sleep":
        closing = ()
    return asked, _story(rng, plot, _cast(rng, plot), closing), _is_any_story


def _ask(rng: random.Random, split: Split) -> tuple[str, str, Check, Plot, Cast]:
    """A request with a wish, the story that fulfils it, its check, and its plot and cast."""
    if rng.random() < 0.06:
        plot = _any_plot(rng)
        slots = _cast(rng, plot, Wanted(kind=rng.choice(("boy", "girl"))))
        return ABOUT_ME.say(rng, split, **slots), _story(rng, plot, slots), _is_story(slots["hero"]), plot, slots
    what, plot, slots, words = rng.choice(WISHES)(rng)
    mood = rng.choice(MOODS) if rng.random() < 0.1 else None
    fits = mood is not None and plot.name in mood.plots
    called = f"{a(say(rng, mood.words))} story" if mood and fits else _a_story(rng)
    if rng.random() < 0.2:
        asked = REQUESTS_ABOUT.say(rng, split, what=what, a_story=called)
    else:
        about = say(rng, "[about|about|about|about|with|of]") if what.startswith(("a ", "an ")) else "about"
        tail = f" {about} {what}"
        asked = REQUESTS.say(rng, split, a_story=called, tail=tail)
    closing = GOOD_NIGHT if mood and fits and mood.night and plot.name != "sleep" else ()
    return asked, _story(rng, plot, slots, closing), _is_story(*words), plot, slots


def story(rng: random.Random, split: Split) -> Example:
    """The user asks for a story."""
    if rng.random() < 0.25:
        asked, told, check = _ask_without_wish(rng, split)
    else:
        asked, told, check, _, _ = _ask(rng, split)
    return Example("story", [user(asked), assistant(told)], check)


def story_start(rng: random.Random, split: Split) -> Example:
    """The user gives a beginning, and the assistant continues with the same hero."""
    plot = _any_plot(rng)
    slots = _cast(rng, plot)
    beats = plot.beats
    shape = rng.random()
    words = [slots["hero"]]
    if shape < 0.55:
        start, rest = STARTS.say(rng, split, who=say(rng, plot.who, **slots), **slots), beats[1:]
    elif shape < 0.7:
        start, rest = STARTS.say(rng, split, who=say(rng, "lived {home}", **slots), **slots), beats
    else:
        told = rng.choice((1, 2, 2, 3))
        head = STARTS.say(rng, split, who=say(rng, "lived {home}", **slots), **slots)
        start, rest = f"{head} {_tell(rng, beats[:told], slots)}", beats[told:]
    answer = _tell_to_the_end(rng, rest, slots, 135, ())
    key = say(rng, plot.key, **slots)
    if shape < 0.55 and _has_loosely(answer, mentions(key)):
        words.append(key)
    if start.endswith(".") and rng.random() < 0.15:
        start += ".."
    asked = WRAPPERS.say(rng, split, start=start)
    return Example("story_start", [user(asked.strip()), assistant(answer)], _is_story(*words, at_least=45))


def _shares_words(wanted: str) -> Check:
    """The answer has at least two of the longer words of the expected one."""
    words = [word for word in re.findall(r"\w+", wanted.lower()) if len(word) > 3]
    return lambda answer: sum(mentions(word)(answer) for word in words) >= min(2, len(words))


def _question(rng: random.Random, plot: Plot) -> tuple[str, Question]:
    """A question about any story, or about this one."""
    names = [*plot.asks, *(("helper",) if plot.helper else ()), *(("color",) if plot.thing else ())]
    if names and rng.random() < 0.5:
        name = rng.choice(names)
        return name, BY_PLOT[name]
    name = rng.choice((*COMMON, "hero_name", "home", "friend_name"))
    return name, COMMON[name]


def story_followup(rng: random.Random, split: Split) -> Example:
    """After a story, the user asks something about it."""
    asked, told, _, plot, slots = _ask(rng, split)
    name, question = _question(rng, plot)
    lesson, title = plot.lesson, say(rng, plot.title, **slots)
    answer = say(rng, question.answer, **{**slots, "Lesson": lesson, "title": title})
    check: Check = mentions(say(rng, question.key, **slots))
    if name == "lesson":
        check = _shares_words(lesson)
    elif name == "title":
        check = mentions_one_of(title, slots["hero"], slots["friend"], say(rng, plot.key, **slots))
    messages = [user(asked), assistant(told), user(question.ask.say(rng, split, **slots)), assistant(answer)]
    return Example("story_followup", messages, lambda answer: check(re.sub(r"'s\b", "", answer)))


KINDS: dict[str, Generator] = {"story": story, "story_start": story_start, "story_followup": story_followup}
