"""Facts about things and words: parts, colours, opposites, plurals, and what animals are like."""

from __future__ import annotations

import random
import re

from .asking import Asked, Intent, a, ask, capital, result_is, says
from .grammar import Phrasings, Split

_PARTS = Phrasings(
    train=(
        "how many {parts} does {one} have?", "how many {parts} has {one}?", "how many {parts} are [on|there on] {one}?",
        "{parts} of {one}", "number of {parts} of {one}", "how many {parts} {one}", "how many {parts} for {one}?",
        "what is the number of {parts} of {one}?", "tell me how many {parts} {one} has.",
        "say how many {parts} {one} has.", "{one} has how many {parts}?", "count the {parts} of {one}.",
        "do you know how many {parts} {one} has?", "how many {parts} do you see on {one}?",
        "how many {parts} can you count on {one}?", "{one}: how many {parts}?", "how many {parts} must {one} have?",
        "{one}, how many {parts}?", "how many {parts} would {one} have?",
        "if I have {one}, how many {parts} does it have?", "I see {one}. How many {parts} does it have?",
        "how many {parts} does {one} usually have?", "I want to know how many {parts} {one} has",
    ),
    held_out=(
        "think of {one}. How many {parts} does it have?", "what number of {parts} does {one} have?",
        "how many {parts} do you count for {one}?", "I do not know how many {parts} {one} has",
    ),
)  # fmt: skip
_COUNTS = {
    "legs": "a dog/4,a cat/4,a horse/4,a cow/4,a spider/8,an ant/6,a bee/6,a bird/2,a duck/2,a sheep/4,"
    "a mouse/4,a frog/4,a chicken/2,a lion/4,an elephant/4,a table/4,a chair/4,a snake/0,a fish/0,a pig/4,"
    "a fox/4,a butterfly/6,a goat/4",
    "wheels": "a car/4,a bike/2,a bicycle/2,a tricycle/3,a motorbike/2,a unicycle/1,a boat/0",
    "sides": "a triangle/3,a square/4,a rectangle/4,a pentagon/5,a hexagon/6,an octagon/8",
    "corners": "a triangle/3,a square/4,a rectangle/4,a pentagon/5,a hexagon/6",
    "fingers": "a hand/5",
    "eyes": "a person/2,a cat/2,a dog/2,a spider/8",
    "ears": "a dog/2,a rabbit/2,a person/2",
    "toes": "a foot/5",
    "letters": "the alphabet/26",
    "wings": "a bird/2,a bee/4,a butterfly/4",
    "arms": "a person/2,an octopus/8",
    "players": "a football team/11",
    "strings": "a violin/4,a guitar/6",
    "colours": "a rainbow/7",
    "seasons": "a year/4",
}
_HAS = tuple(
    (one, int(number), parts)
    for parts, rows in _COUNTS.items()
    for one, number in (row.split("/") for row in rows.split(","))
)
_COLOUR = Phrasings(
    train=(
        "what [colour|color] is {one}?", "what's the [colour|color] of {one}?", "what is the [colour|color] of {one}?",
        "which [colour|color] is {one}?", "which [colour|color] has {one}?", "what [colour|color] does {one} have?",
        "[colour|color] of {one}", "{one} [colour|color]", "{one}, what [colour|color]?", "the [colour|color] of {one}",
        "tell me the [colour|color] of {one}.", "tell me what [colour|color] {one} is.",
        "name the [colour|color] of {one}.", "do you know the [colour|color] of {one}?",
        "what [colour|color] is {one} usually?", "{one} is what [colour|color]?",
        "what [colour|color] would you say {one} is?", "say what [colour|color] {one} is.",
        "I want to paint {one}. What [colour|color] is it?", "in what [colour|color] do I paint {one}?",
        "what [colour|color] do you see when you look at {one}?",
    ),
    held_out=(
        "{one} has which [colour|color]?", "when I look at {one}, what [colour|color] do I see?",
        "which is the [colour|color] of {one}?",
    ),
)  # fmt: skip
_COLOURS = tuple(
    tuple(row.split("/"))
    for row in (
        "grass/green,the sky/blue,snow/white,blood/red,coal/black,a banana/yellow,a lemon/yellow,milk/white,"
        "the sun/yellow,a tomato/red,a carrot/orange,a leaf/green,the sea/blue,a pig/pink,chocolate/brown,"
        "the night/black,an orange/orange,a cloud/white,a frog/green,rice/white,salt/white,a plum/purple,"
        "a strawberry/red,an elephant/gray,a cherry/red,wood/brown,a fire engine/red,honey/yellow,a crow/black,"
        "a polar bear/white,paper/white,coffee/brown"
    ).split(",")
)
_MIX = Phrasings(
    train=(
        "what do you get if you mix {x} and {y}?", "what [colour|color] do I get when I mix {x} and {y}?",
        "mix {x} and {y}.", "what [colour|color] do {x} and {y} make?", "what do {x} and {y} make?",
        "mixing {x} and {y}", "{x} and {y} mixed", "what [colour|color] is {x} mixed with {y}?",
        "what happens if I mix {x} with {y}?", "what does {x} and {y} make?", "{x} plus {y} makes what [colour|color]?",
        "which [colour|color] comes from {x} and {y}?", "{x} and {y} make",
        "if I mix {x} and {y}, what [colour|color] is it?", "tell me what {x} and {y} make.",
        "{x} and {y} give what [colour|color]?", "I mix {x} and {y}. What [colour|color] is it?",
        "what [colour|color] comes out if I mix {x} and {y}?", "{x} + {y} paint",
        "I have {x} and {y} paint. What can I mix?", "paint: {x} and {y} together", "what is {x} and {y} together?",
    ),
    held_out=(
        "I put {x} and {y} paint together. What [colour|color] do I get?",
        "which [colour|color] do you get from {x} mixed with {y}?", "tell me the [colour|color] that {x} and {y} give.",
    ),
)  # fmt: skip
_MIXES = (
    ("red", "blue", "purple"), ("red", "yellow", "orange"), ("blue", "yellow", "green"), ("red", "white", "pink"),
    ("black", "white", "gray"),
)  # fmt: skip
_OPPOSITE = Phrasings(
    train=(
        "what is the opposite of {x}?", "what's the opposite of {x}?", "opposite of {x}", "the opposite of {x}",
        "{x} opposite", "tell me the opposite of {x}.", "give me the opposite of {x}.", "name the opposite of {x}.",
        "say the opposite of {x}.", "do you know the opposite of {x}?", "which word is the opposite of {x}?",
        "what word means the opposite of {x}?", "the opposite of {x} is", "the opposite of {x} is what?",
        "what is the opposite word for {x}?", "{x} and its opposite", "find the opposite of {x}.",
        "I need the opposite of {x}", "if it is not {x}, what is it? The opposite, please.",
        "what do you call the opposite of {x}?", "what would be the opposite of {x}?", "opposite word of {x}",
        "opposite: {x}", "give me a word that is the opposite of {x}.", "{x} is the opposite of what?",
        "{x} is the opposite of which word?",
    ),
    held_out=(
        "which word means the opposite of {x}?", "the word {x}, what is its opposite?",
        "can you find a word that is the opposite of {x}?", "I want the opposite of the word {x}",
    ),
)  # fmt: skip
_OPPOSITES = tuple(
    tuple(pair.split("/"))
    for pair in (
        "hot/cold big/small up/down left/right day/night happy/sad old/young fast/slow high/low open/closed full/empty "
        "hard/soft wet/dry light/dark long/short good/bad rich/poor strong/weak early/late first/last near/far in/out "
        "yes/no black/white clean/dirty loud/quiet thick/thin wide/narrow on/off start/stop push/pull win/lose "
        "buy/sell love/hate true/false easy/difficult summer/winter begin/end north/south east/west top/bottom come/go "
        "before/after above/below inside/outside front/back always/never more/less"
    ).split()
)
_PLURAL = Phrasings(
    train=(
        "what is the plural of {x}?", "what's the plural of {x}?", "plural of {x}", "the plural of {x}", "{x} plural",
        "tell me the plural of {x}.", "give me the plural of {x}.", "say the plural of {x}.",
        "do you know the plural of {x}?", "one {x}, two what?", "one {x}, two", "one {x}, many what?",
        "how do you say more than one {x}?", "what is more than one {x} called?", "what do you call two of {x}?",
        "what is the plural form of {x}?", "plural form of {x}", "which word is the plural of {x}?",
        "how do I write the plural of {x}?", "write the plural of {x}.", "make {x} plural.",
        "the plural of {x} is what?", "plural: {x}", "I need the plural of {x}", "put {x} in the plural.",
        "if there is more than one {x}, what do I say?",
    ),
    held_out=(
        "the word {x}, what is its plural?", "I have one {x} and get one more. What is the plural?",
        "how do you say {x} in the plural?", "find the plural of {x}.",
    ),
)  # fmt: skip
_PLURALS = tuple(
    tuple(pair.split("/"))
    for pair in (
        "cat/cats dog/dogs book/books apple/apples house/houses child/children mouse/mice foot/feet tooth/teeth "
        "man/men woman/women goose/geese sheep/sheep fish/fish leaf/leaves knife/knives wolf/wolves box/boxes "
        "bus/buses city/cities baby/babies story/stories fox/foxes tree/trees car/cars bird/birds key/keys day/days "
        "boy/boys girl/girls tomato/tomatoes potato/potatoes person/people cherry/cherries dish/dishes glass/glasses "
        "shelf/shelves egg/eggs"
    ).split()
)
_BABY = Phrasings(
    train=(
        "what is a baby {x} called?", "what do you call a baby {x}?", "what's a baby {x} called?", "baby {x} name",
        "a baby {x}", "what is the name for a baby {x}?", "what is the word for a baby {x}?", "name of a baby {x}",
        "what is a young {x} called?", "tell me what a baby {x} is called.", "how do you call a young {x}?",
        "what do we call a young {x}?", "a young {x} is called", "do you know what a baby {x} is called?",
        "a baby {x} is called what?", "what is the baby of {a_x} called?", "baby {x}",
        "what is the name of {a_x}'s baby?", "what do people call the baby of {a_x}?", "young {x}, what is it called?",
        "which name has a baby {x}?", "what is a little {x} called?", "give me the word for a young {x}.",
        "say what a baby {x} is called.",
    ),
    held_out=(
        "tell me which word means a baby {x}.", "{a_x} has a baby. What is it called?",
        "tell me the name of a young {x}.",
    ),
)  # fmt: skip
_BABIES = tuple(
    tuple(pair.split("/"))
    for pair in (
        "dog/puppy cat/kitten cow/calf horse/foal sheep/lamb duck/duckling chicken/chick pig/piglet lion/cub bear/cub "
        "goat/kid frog/tadpole deer/fawn swan/cygnet kangaroo/joey goose/gosling elephant/calf fox/cub"
    ).split()
)
_SOUND = Phrasings(
    train=(
        "what [sound|noise] does {a_x} make?", "what does {a_x} say?", "{x} sound",
        "what is the [sound|noise] of {a_x}?", "which [sound|noise] does {a_x} make?",
        "how does {a_x} [go|sound|speak]?", "sound of {a_x}", "what do {xs} say?", "what [sound|noise] do {xs} make?",
        "tell me what {a_x} says.", "tell me the [sound|noise] of {a_x}.", "{a_x} says", "{a_x} says what?",
        "how do {xs} [go|sound|speak]?", "make the [sound|noise] of {a_x}.", "make a [sound|noise] like {a_x}.",
        "say what {a_x} says.", "do you know what {a_x} says?", "the {x} says", "what does the {x} say?",
        "what do you hear from {a_x}?", "what [sound|noise] comes from {a_x}?", "speak like {a_x}.",
        "if you were {a_x}, what would you say?", "{x} noise",
    ),
    held_out=(
        "what do you say if you are {a_x}?", "tell me which sound {xs} make.", "when you hear {a_x}, what does it say?",
    ),
)  # fmt: skip
_SOUNDS = tuple(
    tuple(row.split("/"))
    for row in (
        "dog/woof cat/meow cow/moo duck/quack sheep/baa pig/oink lion/roar bee/buzz horse/neigh owl/hoot snake/hiss "
        "frog/croak wolf/howl bird/tweet hen/cluck crow/caw mouse/squeak goose/honk"
    ).split()
)
_BIGGER = Phrasings(
    train=(
        "which is {more}, {x} or {y}?", "what is {more}, {x} or {y}?", "what's {more}, {x} or {y}?",
        "is {x} or {y} {more}?", "{x} or {y}, which is {more}?", "{x} or {y}, what is {more}?",
        "which is {more}: {x} or {y}?", "{more}, {x} or {y}?", "which one is {more}, {x} or {y}?",
        "{more}: {x} or {y}?", "tell me which is {more}, {x} or {y}.", "{x} or {y} {more}",
        "say which is {more}, {x} or {y}.", "{x} and {y}, which is {more}?", "compare {x} and {y}. Which is {more}?",
        "of {x} and {y}, which is {more}?", "do you know which is {more}, {x} or {y}?",
        "which of the two is {more}, {x} or {y}?", "who is {more}, {x} or {y}?",
        "I see {x} and {y}. Which one is {more}?", "if you compare {x} and {y}, which is {more}?",
    ),
    held_out=(
        "I have {x} and {y}. Which of the two is {more}?", "what would you say is {more}, {x} or {y}?",
        "look at {x} and {y}. What is {more}?",
    ),
)  # fmt: skip
_SIZES = (
    "ant", "bee", "frog", "mouse", "rat", "duck", "cat", "fox", "dog", "sheep", "pig", "lion", "cow", "horse",
    "elephant", "whale",
)  # fmt: skip
_SIZE_GAP = 2
_CAN = Phrasings(
    train=(
        "can {a_x} {do}?", "can {xs} {do}?", "is {a_x} able to {do}?", "are {xs} able to {do}?", "do {xs} {do}?",
        "does {a_x} {do}?", "can {a_x} {do}", "is it true that {xs} can {do}?", "tell me if {a_x} can {do}.",
        "tell me if {xs} can {do}.", "do you think {a_x} can {do}?", "{a_x} can {do}, right?", "{xs} can {do}, right?",
        "I wonder if {xs} can {do}", "say if {a_x} can {do}.", "do you know if {xs} can {do}?", "{xs} {do}?",
        "is {a_x} an animal that can {do}?", "am I right that {xs} can {do}?", "I think {a_x} can {do}, is that right?",
        "could {a_x} {do}?", "does {a_x} know how to {do}?", "do {xs} know how to {do}?",
        "can you tell me if {a_x} can {do}?", "can the {x} {do}?",
    ),
    held_out=(
        "is it right that {a_x} can {do}?", "I want to know if {a_x} is able to {do}",
        "would you say that {xs} can {do}?",
    ),
)  # fmt: skip
_WHICH_CAN = Phrasings(
    train=(
        "which animals can {do}?", "what animals can {do}?", "name [some|three|a few] animals that can {do}.",
        "animals that {do}", "which animals are able to {do}?", "what animals {do}?",
        "tell me some animals that can {do}.", "animals that can {do}", "list animals that can {do}.",
        "give me [an animal|animals|a few animals] that can {do}.", "which animals {do}?",
        "do you know [an animal|animals] that can {do}?", "name an animal that can {do}.",
        "what kind of animal can {do}?", "who can {do}, which animals?", "I need an animal that can {do}",
        "which animal can {do}?", "say which animals can {do}.",
    ),
    held_out=(
        "what are some animals that can {do}?", "tell me which animals know how to {do}.",
        "I want a list of animals that {do}",
    ),
)  # fmt: skip
_ABLE = {
    "fly": (
        "duck owl crow bee goose swan eagle bat butterfly",
        "dog cat cow horse pig penguin snake lion elephant frog sheep",
    ),
    "swim": ("fish duck frog whale swan dolphin penguin shark goose", "butterfly bee"),
}
_WHO_CAN = {"fly": "Ducks, owls and bees can fly.", "swim": "Fish, ducks and frogs can swim."}
_MANY = {
    "goose": "geese",
    "sheep": "sheep",
    "fish": "fish",
    "mouse": "mice",
    "wolf": "wolves",
    "fox": "foxes",
    "butterfly": "butterflies",
}


def _plural(animal: str) -> str:
    return _MANY.get(animal, animal + "s")


def _parts(rng: random.Random, split: Split) -> Asked:
    one, number, parts = rng.choice(_HAS)
    counted = f"{'no' if number == 0 else number} {parts.removesuffix('s') if number == 1 else parts}"
    check = says(["no", "0", "zero"]) if number == 0 else result_is(number)
    answer = f"{capital(one)} has {counted}."
    return Asked(
        ask(rng, split, _PARTS, parts=parts, one=one), answer, check, f"I know how many {parts} {one} has: {number}."
    )


def _colour(rng: random.Random, split: Split) -> Asked:
    one, colour = rng.choice(_COLOURS)
    thoughts = f"The user asks about a colour. I think of {one}: it is {colour}."
    others = [other for _, other in _COLOURS if other not in (colour, one.split()[-1])]
    return Asked(ask(rng, split, _COLOUR, one=one), f"{capital(one)} is {colour}.", says([colour], others), thoughts)


def _mix(rng: random.Random, split: Split) -> Asked:
    x, y, made = rng.choice(_MIXES)
    others = [mixed for *_, mixed in _MIXES if mixed != made]
    thoughts = f"The user mixes two colours. {capital(x)} with {y} makes {made}."
    first, second = rng.choice(((x, y), (y, x)))
    question = ask(rng, split, _MIX, x=first, y=second)
    return Asked(question, f"{capital(first)} and {second} make {made}.", says([made], others), thoughts)


def _opposite(rng: random.Random, split: Split) -> Asked:
    pair = rng.choice(_OPPOSITES)
    x, y = rng.choice((pair, pair[::-1]))
    thoughts = f"The user wants an opposite. {capital(x)} and {y} are opposites."
    return Asked(ask(rng, split, _OPPOSITE, x=x), f"The opposite of {x} is {y}.", says([y]), thoughts)


def _plural_of(rng: random.Random, split: Split) -> Asked:
    one, many = rng.choice(_PLURALS)
    thoughts = f"The user wants a plural. One {one}, two {many}."
    return Asked(ask(rng, split, _PLURAL, x=one), f"The plural of {one} is {many}.", says([many]), thoughts)


def _baby(rng: random.Random, split: Split) -> Asked:
    x, baby = rng.choice(_BABIES)
    thoughts = f"The user asks about a baby {x}. The word is {baby}."
    others = [other for _, other in _BABIES if other != baby]
    return Asked(
        ask(rng, split, _BABY, x=x, a_x=a(x)), f"A baby {x} is called {a(baby)}.", says([baby], others), thoughts
    )


def _sound(rng: random.Random, split: Split) -> Asked:
    x, sound = rng.choice(_SOUNDS)
    question = ask(rng, split, _SOUND, x=x, a_x=a(x), xs=_plural(x))
    thoughts = f"The user asks for the sound of {a(x)}. It is {sound}."
    others = [other for _, other in _SOUNDS if other != sound]
    return Asked(question, f"{capital(a(x))} says {sound}.", says([sound], others), thoughts)


def bigger(rng: random.Random, split: Split) -> Asked:
    """Which of two animals is bigger, or smaller."""
    small = rng.randrange(len(_SIZES) - _SIZE_GAP)
    x, y = a(_SIZES[small]), a(rng.choice(_SIZES[small + _SIZE_GAP :]))
    more, best, rest = rng.choice((("bigger", y, x), ("bigger", y, x), ("larger", y, x), ("smaller", x, y)))
    first, second = rng.choice(((x, y), (y, x)))
    question = ask(rng, split, _BIGGER, more=more, x=first, y=second)
    more = "smaller" if more == "smaller" else "bigger"
    answer = f"{capital(best)} is {more} than {rest}."
    thoughts = f"I compare {first} and {second}. {capital(y)} is big next to {x}, so {best} is {more}."
    best, rest = best.split()[1], rest.split()[1]
    others = [name for name in _SIZES if name not in (best, rest)]
    only = says([best], [*others, *(["bigger", "larger"] if more == "smaller" else ["smaller"])])
    first_named = re.compile(rf"(?<!\w)({best}|{rest})(?!\w)", re.IGNORECASE)

    def check(text: str) -> bool:
        named = first_named.search(text)
        return only(text) and named is not None and named[1].lower() == best

    return Asked(question, answer, check, thoughts)


def _can(rng: random.Random, split: Split) -> Asked:
    do = rng.choice(("fly", "swim"))
    able = rng.random() < (0.5 if do == "fly" else 0.8)
    x = rng.choice(_ABLE[do][0 if able else 1].split())
    question = ask(rng, split, _CAN, x=x, a_x=a(x), xs=_plural(x), do=do)
    answer = f"Yes, {a(x)} can {do}." if able else f"No, {a(x)} cannot {do}."
    denials = ["no", "cannot", "can not", "can't"]
    thoughts = f"I think of {a(x)}. It {'can' if able else 'cannot'} {do}."
    return Asked(question, answer, says(["yes", "can"], denials) if able else says(denials, ["yes"]), thoughts)


def _which_can(rng: random.Random, split: Split) -> Asked:
    do = rng.choice(("fly", "swim"))
    able, unable = (words.split() for words in _ABLE[do])
    check = says([*able, *map(_plural, able), "birds"], [*unable, *map(_plural, unable)])
    thoughts = f"The user wants animals that {do}. I name three."
    return Asked(ask(rng, split, _WHICH_CAN, do=do), _WHO_CAN[do], check, thoughts)


INTENTS: tuple[tuple[Intent, int], ...] = (
    (_parts, 8), (_colour, 6), (_mix, 3), (_opposite, 8), (_plural_of, 6), (_baby, 4),
    (_sound, 4), (bigger, 4), (_can, 4), (_which_can, 1),
)  # fmt: skip
