"""What users tell about themselves: names, towns, jobs, hobbies, plans, shopping lists, many of each."""

from __future__ import annotations

import random

from .name_lists import ASSISTANTS, city, made_up, person, with_article

Values = dict[str, str]

_PET_KINDS = "cat;dog;hamster;rabbit;parrot;horse;turtle;fish;bird;mouse;pony;snake;hen;goat;duck;pig".split(";")
_JOBS = (
    "baker;teacher;doctor;nurse;cook;farmer;driver;painter;singer;writer;actor;artist;gardener;builder;pilot;sailor;"
    "waiter;dentist;lawyer;engineer;student;dancer;tailor;butcher;plumber;electrician;mechanic;librarian;journalist;"
    "police officer;firefighter;bus driver;taxi driver;train driver;shop owner;hairdresser;judge;scientist;designer;"
    "programmer;musician;photographer;carpenter;cleaner;clerk;coach;guard;hunter;jeweler;manager;vet;math teacher;"
    "music teacher;art teacher;dance teacher;tour guide;pianist;priest;soldier;translator"
).split(";")
_DOING = (
    "painting;reading;running;swimming;dancing;singing;cooking;baking;fishing;hiking;skiing;sailing;knitting;sewing;"
    "drawing;writing;chess;tennis;football;golf;yoga;gardening;climbing;cycling;surfing;camping;jogging;riding;"
    "skating;rowing;boxing;music;photography;poker;karate;judo;hockey;basketball;volleyball;puzzles"
).split(";")
_COLLECTED = (
    "stamps;coins;stones;shells;books;cards;old maps;toys;hats;cups;pens;records;dolls;model trains;keys".split(";")
)
_PLAYED = "the piano;the guitar;the violin;the drums;the flute;cards;board games;video games;the trumpet".split(";")
_BUILT = "model ships;model planes;robots;kites;bird houses;small boats;toy cars;clocks;lamps;chairs".split(";")
_COLORS = (
    "red;blue;green;yellow;orange;purple;pink;brown;black;white;gray;gold;silver;turquoise;violet;beige;cyan;magenta"
).split(";")
_SHADES = ("dark", "light", "bright", "pale", "deep")
_FOODS = (
    "pizza;pasta;rice;soup;bread;cheese;fish;chicken;salad;cake;ice cream;chocolate;noodles;pancakes;apple pie;curry;"
    "sushi;tacos;burgers;fries;potatoes;eggs;beans;mushrooms;tomato soup;onion soup;fish soup;bean stew;fried rice;"
    "waffles;cookies;dumplings;honey;strawberries;cherries;bananas;mangoes;grapes;carrots;corn;spinach;lasagna;"
    "meatballs;sandwiches;toast;porridge;yogurt;popcorn;nuts;pumpkin pie;lemon cake;cheese cake;garlic bread"
).split(";")
_PLANS = {
    "visit": "the zoo;a museum;a friend;an old castle;a farm;the market;the sea;a lake;the library;a theater",
    "paint": "the kitchen;the fence;a picture;the door;a chair;the garage;the boat",
    "clean": "the house;the car;the garage;the windows;the garden;the kitchen",
    "go": "fishing;swimming;hiking;camping;skiing;dancing;sailing;to the cinema;to the beach;to a concert",
    "bake": "a cake;bread;cookies;an apple pie;a pizza",
    "read": "a book;a long story;the newspaper;a book about the sea",
    "plant": "a tree;some flowers;tomatoes;roses;carrots",
    "build": "a shelf;a tree house;a kite;a bird house;a table",
    "watch": "a movie;football;birds;the stars;a play",
    "fix": "the bike;the roof;the car;the radio;the lamp",
    "learn": "a song;a dance;chess;some French;a new game",
}
_BUYS = (
    "milk;eggs;bread;butter;cheese;apples;bananas;pears;rice;pasta;flour;sugar;salt;pepper;tea;coffee;juice;water;"
    "honey;jam;nuts;beans;carrots;onions;potatoes;tomatoes;lemons;oranges;grapes;cherries;plums;corn;soup;fish;"
    "chicken;yogurt;cream;chocolate;cookies;soap;paper;pens;candles;batteries;socks;a lamp;a brush;a bucket;string;"
    "tape;glue;nails;a hammer;a mirror;flowers;seeds;a rope;a pan;a cup;cat food;dog food;salad;garlic;mushrooms;oil;"
    "vinegar;ice;a map"
).split(";")


def values(rng: random.Random, key: str) -> Values:
    """What fills the templates of a thing told: `value`, `capital` (it at the start of a sentence), of pets `kind`."""
    value = _value(rng, key)
    filled = {"value": value, "capital": value[0].upper() + value[1:]}
    return {**filled, "kind": rng.choice(_PET_KINDS)} if key == "pet" else filled


def other_kind(rng: random.Random, kind: str) -> str:
    """A kind of pet that is not this one."""
    return rng.choice([other for other in _PET_KINDS if other != kind])


def job(rng: random.Random) -> str:
    """A job with its article."""
    return with_article(rng.choice(_JOBS))


def hobby(rng: random.Random) -> str:
    """What somebody likes to do."""
    chance = rng.random()
    if chance < 0.5:
        return rng.choice(_DOING)
    if chance < 0.65:
        return f"collecting {rng.choice(_COLLECTED)}"
    if chance < 0.8:
        return f"playing {rng.choice(_PLAYED)}"
    return f"building {rng.choice(_BUILT)}" if chance < 0.9 else f"reading about {rng.choice(_COLLECTED)}"


def _value(rng: random.Random, key: str) -> str:
    """The thing told."""
    match key:
        case "name" | "friend":
            return person(rng)
        case "age":
            return str(rng.randint(5, 99))
        case "city":
            return city(rng)
        case "pet":
            chance = rng.random()
            return rng.choice(ASSISTANTS) if chance < 0.5 else person(rng) if chance < 0.6 else made_up(rng)
        case "job":
            return job(rng)
        case "hobby":
            return hobby(rng)
        case "color":
            color = rng.choice(_COLORS)
            return f"{rng.choice(_SHADES)} {color}" if rng.random() < 0.3 else color
        case "food":
            return rng.choice(_FOODS)
        case "plan":
            verb, things = rng.choice(list(_PLANS.items()))
            return f"{verb} {rng.choice(things.split(';'))}"
        case "number":
            return str(rng.randint(1, rng.choice((20, 100, 1000, 10000))))
    *first, last = rng.sample(_BUYS, rng.choice((2, 3, 3, 4, 5)))
    return f"{', '.join(first)} and {last}"
