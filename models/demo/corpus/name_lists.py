"""Names of people, assistants, towns, and places, long lists and made-up ones, so that a model learns to copy them."""

from __future__ import annotations

import random

PEOPLE = (
    "Ada Adam Agnes Ahmed Aida Alan Albert Alex Alfie Ali Alice Alma Amal Amara Amir Amy Ana Andre Andy Anita Anna "
    "Anton Arjun Arlo Arthur Asha Astrid Aya Bao Basil Bea Bella Ben Bert Beth Bill Bjorn Bob Bonnie Boris Brian "
    "Bruno Carla Carlos Carmen Cara Cecil Celia Chen Chloe Chris Clara Claire Cleo Colin Cora Dalia Dan Daniel Dara "
    "David Dawn Dean Diego Dina Dmitri Dora Doris Dylan Edgar Edith Edna Eli Elias Elif Elin Ella Ellen Elsa Emil "
    "Emily Emma Enzo Eric Erik Esme Esther Eva Evan Farah Fatima Felix Fern Finn Fiona Flora Frank Freya Fred Gabe "
    "Gail Gemma George Gina Grace Greta Gus Hana Hanna Harry Hassan Hazel Heidi Helen Henry Hiro Holly Hugo Ian "
    "Ibrahim Ida Igor Ines Inga Ingrid Irene Iris Isaac Ivan Ivy Jack Jade Jakob James Jamal Jan Jane Jasper Jean "
    "Jenny Jin Joan Joel John Jonas Josie Juan Judy Jules Julia June Kai Karen Karim Karl Kate Keiko Ken Kevin Kim "
    "Kira Kofi Kurt Lana Lara Lars Laura Layla Lea Lee Lena Leo Leon Lila Lily Lina Linda Lisa Liv Liz Lola Lotte "
    "Louis Luca Lucy Luis Luke Lydia Mabel Malik Mara Marco Maria Marie Mark Marta Martin Mary Mateo Matt Maya Mei "
    "Mia Mike Mila Milo Mina Miriam Mohamed Molly Mona Nadia Nancy Naomi Nasir Nell Nia Nick Nico Nina Noah Noor "
    "Nora Olaf Olga Oliver Omar Oscar Otto Paola Pat Paul Pavel Pedro Peter Phil Pia Priya Quinn Rafael Rahul Ralph "
    "Raj Ravi Rebecca Rita Robert Robin Rohan Ron Rosa Ruby Ruth Sadie Sally Sam Samira Sara Saul Sean Selma Sergei "
    "Shan Sheila Simon Sofia Sonia Stan Stella Sue Sven Tara Tariq Ted Tess Theo Tim Tina Tom Tony Uma Ursula Vera "
    "Victor Viktor Violet Wanda Wei Wendy Will Yara Yasmin Yuki Yusuf Zara Zeno Zoe"
).split()

ASSISTANTS = (
    "Nova Bolt Pixel Echo Orbit Sparky Pip Rusty Byte Cosmo Luna Sol Atlas Juno Vega Orion Comet Rocket Turbo Dash "
    "Chip Widget Gizmo Beacon Ember Flint Sage Willow Maple Clover Pebble River Storm Sunny Misty Frost Breeze Breva "
    "Clementine Pepper Ginger Basil Mocha Biscuit Cookie Muffin Waffle Noodle Bean Peanut Pickle Olive Plum Cherry "
    "Kiwi Mango Coco Honey Toffee Fudge Ziggy Zippy Zed Max Rex Duke Baron Scout Ranger Pilot Skipper Sailor Captain "
    "Buddy Ally Amico Robo Botto Botty Mecha Kit Kitt Hal Tik Tok Blip Bleep Bing Bong Dot Dash Pico Nano Mega Giga "
    "Tera Axel Apollo Athena Hermes Hera Iris Thor Odin Loki Freya Merlin Gandy Jarvo Mira Zara Lyra Nox Lux Rune "
    "Onyx Opal Ruby Jade Pearl Amber Coral Topaz Jasper Quartz Cobalt Copper Silver Steel Iron Titan Zeus Argo Aria "
    "Melody Tempo Jazz Harmony Lyric Sonnet Quill Inky Paige Libby Booker Archie Clio Sophy Doc Prof Tutor Bridge "
    "Harbor Delta Sigma Omega Alpha Kappa Zeta Theta Helper Friday Monday October April Winter Summer Dusk Dawn "
    "Twilight Stardust Moonbeam"
).split()

CITIES = (
    "Oslo Rome Paris London Berlin Madrid Lisbon Vienna Prague Warsaw Athens Dublin Cairo Lagos Nairobi Accra Tunis "
    "Delhi Mumbai Tokyo Kyoto Osaka Seoul Hanoi Bangkok Manila Jakarta Sydney Perth Boston Chicago Dallas Denver "
    "Miami Seattle Austin Houston Atlanta Toronto Montreal Ottawa Lima Quito Bogota Santiago Caracas Havana Bern "
    "Zurich Geneva Basel Milan Turin Naples Venice Florence Pisa Genoa Munich Hamburg Bremen Cologne Leipzig Dresden "
    "Lyon Nice Lille Nantes Bordeaux Porto Seville Malaga Bilbao Valencia Krakow Gdansk Riga Vilnius Tallinn "
    "Helsinki Turku Tampere Stockholm Malmo Uppsala Bergen Copenhagen Aarhus Odense Leeds York Bath Bristol Oxford "
    "Cambridge Glasgow Cardiff Belfast Cork Galway Ghent Bruges Antwerp Brussels Utrecht Leiden Delft Sofia Zagreb "
    "Split Belgrade Budapest Kiev Odessa Minsk Tbilisi Ankara Izmir Beirut Amman Doha Dubai Muscat Karachi Lahore "
    "Dhaka Colombo Lhasa Taipei Cebu Darwin Hobart Auckland Wellington Suva Dakar Kigali Lusaka Harare Durban Tucson "
    "Omaha Tulsa Fresno Reno Boise"
).split()

TITLES = ("Captain", "Doctor", "Professor", "Miss", "Mister", "Lady", "Sir", "Uncle", "Aunt", "Agent", "Little", "Old")

PLACE_NAMES = (
    "Mill Street;Green Door;Blue River;Old Town;Red Lion;Golden Sun;Silver Lake;North Hill;South Bay;Park Lane;"
    "King Street;Queen Square;Oak Tree;Rose Garden;Sea View;Station Road;High Street;Market Square;White Horse;"
    "Black Cat;Happy Fish;Two Bridges;Seven Stars;Lucky Duck;Little Fox;Big Apple;Sunny Side;Moon Light;River Side;"
    "Castle Hill;Bell Tower;Long Beach;Stone Bridge;Cherry Tree;Morning Star;Wild Goose;Copper Pot;Apple Tree"
).split(";")
PLACE_KINDS = (
    "Library;Hotel;Bakery;Museum;School;Cafe;Bookshop;Bank;Farm;Garden;Theater;Restaurant;Shop;Market;Hospital;Gym;"
    "Zoo;Station;Pharmacy;Club;Pool;Cinema;Inn;Studio;Clinic"
).split(";")

_STARTS = "b c d f g h j k l m n p r s t v w z br dr gr kr tr pl st th sh fl gl".split()
_VOWELS = "a e i o u a e o i ai ee ia".split()
_ENDS = ("", "", "", "", "n", "r", "l", "s", "k", "x", "m", "nd", "rn", "th")
_AVOIDED = ("shit", "fuk", "fag", "nig", "nazi", "rape", "kunt", "dik", "tit", "cum", "pis", "poo", "sex", "jew", "gay")


def made_up(rng: random.Random) -> str:
    """A word that is none, of two to four syllables, capitalized."""
    while True:
        syllables = rng.choice((2, 2, 2, 3, 3, 4))
        word = "".join(rng.choice(_STARTS) + rng.choice(_VOWELS) for _ in range(syllables)) + rng.choice(_ENDS)
        if not any(part in word for part in _AVOIDED):
            return word.capitalize()


def person(rng: random.Random) -> str:
    """The first name of somebody."""
    return rng.choice(PEOPLE) if rng.random() < 0.65 else made_up(rng)


def assistant_name(rng: random.Random) -> str:
    """What an assistant may be called; sometimes two words."""
    chance = rng.random()
    if chance < 0.35:
        return rng.choice(ASSISTANTS)
    if chance < 0.5:
        return rng.choice(PEOPLE)
    if chance < 0.85:
        return made_up(rng)
    if chance < 0.95:
        return f"{rng.choice(TITLES)} {made_up(rng) if rng.random() < 0.6 else rng.choice(PEOPLE)}"
    return f"{made_up(rng)} {made_up(rng)}"


def city(rng: random.Random) -> str:
    """A town."""
    return rng.choice(CITIES) if rng.random() < 0.6 else made_up(rng)


def place(rng: random.Random) -> str:
    """A shop or house with a name, without an article."""
    first = rng.choice(PLACE_NAMES) if rng.random() < 0.6 else made_up(rng)
    return f"{first} {rng.choice(PLACE_KINDS)}"


def other_than(rng: random.Random, taken: str) -> str:
    """A name of an assistant or a person that is not the taken one."""
    while (name := assistant_name(rng) if rng.random() < 0.6 else person(rng)) == taken:
        pass
    return name


def with_article(noun: str) -> str:
    """The noun after "a" or "an"."""
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"
