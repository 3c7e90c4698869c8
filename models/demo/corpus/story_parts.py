"""Who and what the stories are made of: names, kinds of heroes, places, things, and what plots need besides."""

from __future__ import annotations

import random
from dataclasses import dataclass

GIRLS = (
    "Anna Mia Lily Rosa Nora Ella Clara Ruby Daisy Lucy Molly Emma Ada Bella Cora Dora Eva Flora Greta Hanna Ida Julia"
    " Kira Lena Maya Nina Olga Paula Rita Sara Tina Vera Zoe Amy Betty Ivy Jane Kate Lola Mina Pia Sofia Tessa Wilma"
    " Polly Penny Holly Sally Millie Tilly Hazel Pearl Luna Stella Fiona Marta Dina Elsa Gina Zara"
).split()
BOYS = (
    "Tom Ben Max Leo Sam Tim Finn Jack Paul Otto Emil Oscar Felix Hugo Milo Theo Noah Luis Marco Pedro Ali Omar Ivan"
    " Jonas Karl Lars Nils Peter Rob Simon Toby Victor Will Adam Bruno Carl David Eric Fred George Henry Jim Ken Luke"
    " Mark Nick Oliver Pip Quinn Ralph Sid Ted Walter Rocky Rusty Barney Buster Dusty Alfie Rufus Bobo"
).split()
ADJECTIVES = ("little", "small", "young", "brave", "kind", "clever", "shy", "happy", "quiet", "cheerful", "curious")
FRIEND_ADJECTIVES = ("friendly", "kind", "young", "clever", "cheerful", "gentle", "wise", "funny", "quiet", "small")
COLORS = ("red", "blue", "green", "yellow", "white", "golden", "silver", "purple", "orange", "pink", "brown", "black")
LOOKS = ("old", "new", "shiny", "pretty", "little")
ANIMALS = (
    "fox cat dog owl mouse rabbit bear frog duck hedgehog squirrel turtle hen goat pony donkey wolf deer penguin"
    " elephant lion tiger monkey panda pig cow sheep goose otter beaver raccoon mole badger sparrow crow parrot"
    " kitten puppy camel giraffe zebra koala hamster swan seal"
).split()
PEOPLE = "boy girl prince princess king queen farmer baker knight robot dragon giant pirate wizard".split()
HE_ONLY = ("boy", "prince", "king")
SHE_ONLY = ("girl", "princess", "queen", "hen", "cow")

PLACES = (  # preposition, noun, how it may look
    ("in", "forest", ("old", "green", "quiet")),
    ("by", "river", ("wide", "cold", "slow")),
    ("by", "sea", ("blue", "deep")),
    ("by", "lake", ("blue", "quiet", "big")),
    ("on", "farm", ("old", "little")),
    ("in", "village", ("small", "quiet")),
    ("on", "hill", ("green", "high")),
    ("in", "valley", ("green", "long")),
    ("in", "town", ("old", "busy")),
    ("near", "castle", ("old", "white")),
    ("on", "island", ("small", "green")),
    ("near", "mountain", ("high", "white")),
    ("by", "pond", ("little", "round")),
    ("in", "meadow", ("green", "sunny")),
    ("in", "garden", ("big", "old")),
    ("near", "beach", ("sunny", "long")),
    ("in", "park", ("green", "big")),
    ("near", "mill", ("old", "red")),
    ("near", "bridge", ("old", "long")),
    ("near", "tower", ("old", "high")),
    ("by", "harbor", ("old", "busy")),
    ("near", "market", ("busy", "old")),
    ("in", "jungle", ("green", "warm")),
    ("in", "orchard", ("old", "sunny")),
    ("near", "field", ("wide", "yellow")),
    ("by", "road", ("long", "old")),
    ("near", "desert", ("wide", "hot")),
    ("by", "stream", ("cold", "little")),
    ("near", "school", ("small", "old")),
    ("in", "woods", ("dark", "quiet")),
    ("by", "bay", ("blue", "quiet")),
    ("in", "city", ("big", "busy")),
)


@dataclass(frozen=True, slots=True)
class Thing:
    """Something to own, lose, share or give: what one does with it, did with it, and how one spoils it."""

    noun: str
    use: str
    used: str
    harm: str = ""
    light: bool = False
    """Whether the wind can carry it off."""


def _things(rows: str) -> tuple[Thing, ...]:
    """Read `noun: use / used / harm` lines; a `~` before the noun says that it is light."""
    things = []
    for row in rows.strip().splitlines():
        noun, _, doing = row.partition(": ")
        use, used, harm = (part.strip() for part in doing.split("/"))
        things.append(Thing(noun.lstrip("~"), use, used, harm, noun.startswith("~")))
    return tuple(things)


THINGS = _things(
    """
~ball: play with it / played with it /
~kite: fly it / flew it / tore
drum: play it / played it / broke
boat: sail it / sailed it / broke
doll: play with it / played with it / broke
~hat: wear it / wore it / tore
~scarf: wear it / wore it / tore
book: read it / read it / tore
lamp: light it / lit it / broke
bell: ring it / rang it / broke
key: look at it / looked at it /
cup: drink from it / drank from it / broke
basket: carry it / carried it / broke
~blanket: sit under it / sat under it / tore
~umbrella: play with it / played with it / broke
coat: wear it / wore it / tore
ring: wear it / wore it /
shell: listen to it / listened to it / broke
stone: look at it / looked at it /
coin: look at it / looked at it /
~map: look at it / looked at it / tore
flute: play it / played it / broke
box: play with it / played with it / broke
mirror: look into it / looked into it / broke
pillow: sit on it / sat on it / tore
bag: carry it / carried it / tore
button: look at it / looked at it / broke
whistle: blow it / blew it / broke
~feather: play with it / played with it /
~balloon: play with it / played with it /
crown: wear it / wore it / broke
clock: listen to it / listened to it / broke
puppet: play with it / played with it / broke
wagon: pull it / pulled it / broke
sled: ride on it / rode on it / broke
lantern: light it / lit it / broke
spoon: eat with it / ate with it / broke
pen: write with it / wrote with it / broke
~ribbon: wear it / wore it / tore
necklace: wear it / wore it / broke
~cap: wear it / wore it / tore
bowl: eat from it / ate from it / broke
guitar: play it / played it / broke
bucket: carry it / carried it / broke
~flag: wave it / waved it / tore
~picture: look at it / looked at it / tore
"""
)

FOODS = (  # what it is, in short, how the hero got it
    ("a big apple pie", "pie", "baked"),
    ("a sweet cake", "cake", "baked"),
    ("a warm loaf of bread", "bread", "baked"),
    ("a pot of hot soup", "soup", "cooked"),
    ("a jar of honey", "honey", "found"),
    ("a big melon", "melon", "found"),
    ("a piece of yellow cheese", "cheese", "bought"),
    ("a bowl of rice pudding", "pudding", "made"),
    ("a plum cake", "cake", "made"),
    ("a big berry pie", "pie", "made"),
)
FEARS = (  # of what, where the friend is, the way to the friend, what the hero does at last
    ("the dark", "on the dark path", "There was no moon, and the path was very dark.", "walked into the dark"),
    ("deep water", "on a rock in the lake", "All around the rock was deep water.", "jumped into the deep water"),
    ("thunder", "out in the field", "The sky was black, and the thunder was very loud.", "ran out into the thunder"),
    ("high places", "on a high rock", "The rock was as high as a house.", "climbed up to the high place"),
    ("the old bridge", "across the river", "The only way was over the old bridge.", "stepped onto the old bridge"),
    ("the big cave", "in the big cave", "The cave was cold and black.", "went into the big cave"),
    ("spiders", "in the old barn", "A fat spider sat on the barn door.", "walked past the spider"),
    ("the wind", "on top of the hill", "The wind on the hill was very strong.", "walked into the wind"),
    ("ghosts", "in the empty house", "The doors of the house made strange sounds.", "went into the old house"),
    ("snakes", "behind the stone wall", "A long green snake lay in front of the wall.", "walked past the snake"),
)
SKILLS = (  # what to learn, done
    ("swim", "swam"),
    ("sing", "sang"),
    ("dance", "danced"),
    ("whistle", "whistled"),
    ("read", "read"),
    ("paint", "painted"),
    ("bake bread", "baked bread"),
    ("play the drum", "played the drum"),
    ("play the flute", "played the flute"),
    ("skate", "skated"),
    ("tell stories", "told stories"),
    ("cook soup", "cooked soup"),
    ("ride a bike", "rode a bike"),
    ("fly a kite", "flew a kite"),
    ("write letters", "wrote letters"),
    ("climb", "climbed"),
)
NOISES = (  # the noise, where it came from, what it was, what they did about it
    ("Tap, tap, tap", "the window", "a branch that knocked on the glass", "They cut the branch off"),
    ("Scratch, scratch", "the kitchen", "a beetle in an empty box", "They put the beetle out on the grass"),
    ("Drip, drip, drip", "the roof", "rain that fell into an old pot", "They closed the hole in the roof"),
    ("Whoo, whoo", "the garden", "the wind that blew over an empty bottle", "They put the bottle away"),
    ("Squeak, squeak", "the gate", "the old gate that moved in the wind", "They closed the gate well"),
    ("Buzz, buzz", "the big cupboard", "a bee that could not get out", "They let the bee fly away"),
    ("Crunch, crunch", "the garden", "a lost lamb that ate dry leaves", "They took the lamb home"),
    ("Bump, bump", "the door", "a round pumpkin that rolled in the wind", "They carried the pumpkin inside"),
    ("Plop, plop", "the old well", "a toad that jumped in and out of the water", "They said good night to the toad"),
)
PLANTS = (  # the plant, what it gives
    ("apple tree", "sweet apples"),
    ("pear tree", "soft pears"),
    ("cherry tree", "red cherries"),
    ("plum tree", "blue plums"),
    ("rose bush", "red roses"),
    ("berry bush", "sweet berries"),
    ("pumpkin plant", "big pumpkins"),
    ("bean plant", "long beans"),
    ("orange tree", "fresh oranges"),
)
DREAMS = (  # what the hero wants, in a word, the friend's idea, how it ends
    ("touch the moon", "moon", "The moon is in the lake at night", "touched the moon in the still water"),
    ("fly like a bird", "fly", "We can make a big swing", "went up into the air on the swing and seemed to fly"),
    ("see the sea", "sea", "The sea is behind the last hill", "stood on the hill and saw the wide blue sea"),
    ("catch a star", "star", "Some stars live in the grass at night", "held a tiny bug that shone like a star"),
    ("see the whole world", "world", "Let us climb the high hill", "stood on top of the hill and saw the whole world"),
    (
        "ride on a cloud",
        "cloud",
        "Fog is a cloud that came down to us",
        "ran through the white fog and rode on a cloud",
    ),
    ("hear the stars sing", "stars", "We must be very quiet at night", "heard a soft song come from the stars"),
)
BUILDS = (  # what to build, what for
    ("boat", "cross the river"),
    ("bridge", "cross the stream"),
    ("tree house", "look far away"),
    ("raft", "sail on the pond"),
    ("swing", "go up and down in the air"),
    ("bench", "sit in the evening sun"),
    ("cart", "carry apples to the market"),
    ("tower", "see the sea"),
    ("hut", "sit inside on rainy days"),
    ("sled", "ride down the hill"),
)
SPOTS = (
    "in the tall grass",
    "under an old bench",
    "under the dry leaves",
    "behind a big stone",
    "between two stones",
    "in an empty nest",
    "under a little bush",
    "next to the well",
    "behind the old wall",
    "at the foot of a tree",
)


def a(words: str) -> str:
    """The words with `a` or `an` before them."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


SHE_FRIENDS = "Lotte Mimi Rosa Tilda Wilma".split()
HE_FRIENDS = "Bruno Gus Hugo Otto Paco".split()
"""Second heroes have one of few names: of many each would be less likely than the first hero's name once more."""


def name(rng: random.Random, she: bool) -> str:
    """A girl's or a boy's name; two of five are made up, so that a model learns to copy names."""
    if rng.random() < 0.6:
        return rng.choice(GIRLS if she else BOYS)
    syllables = [rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(rng.choice((1, 2, 2)))]
    last = rng.choice("bdklmnrstvz") + ("a" if she else rng.choice(("o", "ik", "un", "ar", "ob", "en", "is", "o")))
    return ("".join(syllables) + last).capitalize()
